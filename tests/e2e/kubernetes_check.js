// Holds objects of Kubernetes against the schemas of their kinds: a JSON list on standard input, a JSON list of complaints
// on standard output. The schemas are those of the npm packages kubernetes-models and @kubernetes-models/….
//
// Those let unknown fields pass, as Kubernetes' own do; a field that is known has a type. So each field in turn is given a
// value of a type that nothing has: where nobody objects, nobody knows the field.
const path = require('path');
const { pathToFileURL } = require('url');

const home = path.join(process.env.NPM_HOME, 'node_modules');
const packages = {'keda.sh/v1alpha1': '@kubernetes-models/keda', 'monitoring.coreos.com/v1': '@kubernetes-models/prometheus-operator'};
const strange = Symbol('a value that nothing has');

// Every place inside of an object, as its list of keys.
function* places(value, at = []) {
  if (value === null || typeof value !== 'object') return;
  for (const key of Object.keys(value)) {
    yield [...at, key];
    yield* places(value[key], [...at, key]);
  }
}

function replaced(value, [key, ...rest]) {
  const copy = Array.isArray(value) ? [...value] : { ...value };
  copy[key] = rest.length ? replaced(value[key], rest) : strange;
  return copy;
}

function complaint(Kind, object) {
  try {
    new Kind(object).validate();
    return null;
  } catch (error) {
    return error.message;
  }
}

async function check(object) {
  const folder = `${packages[object.apiVersion] || 'kubernetes-models'}/${object.apiVersion}/${object.kind}.js`;
  const Kind = (await import(pathToFileURL(path.join(home, folder)).href))[object.kind];
  const name = `${object.kind} ${object.metadata.name}`;
  const wrong = complaint(Kind, object);
  if (wrong !== null) return [`${name}: ${wrong}`];
  return [...places(object)].filter((place) => complaint(Kind, replaced(object, place)) === null)
    .map((place) => `${name}: no such field: ${place.join('.')}`);
}

async function main() {
  const pieces = [];
  for await (const piece of process.stdin) pieces.push(piece);
  const complaints = [];
  for (const object of JSON.parse(Buffer.concat(pieces).toString())) complaints.push(...await check(object));
  process.stdout.write(JSON.stringify(complaints));
}

main();

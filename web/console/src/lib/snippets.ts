// The same request as a person would send it: curl, Python, JavaScript, and grpcurl where gRPC has it.

import {at} from './api';

export interface Request {
  path: string;
  body: unknown;
  stream?: boolean;
  grpc?: {service: string; method: string; body: unknown};
}

const quoted = (text: string) => `'${text.replaceAll("'", `'\\''`)}'`;
const compact = (body: unknown) => JSON.stringify(body);

// Python's literals, so that the text is the language's own.
function python(value: unknown): string {
  if (value === null) return 'None';
  if (value === true) return 'True';
  if (value === false) return 'False';
  if (Array.isArray(value)) return `[${value.map(python).join(', ')}]`;
  if (typeof value === 'object') return `{${Object.entries(value as object).map(([k, v]) => `${JSON.stringify(k)}: ${python(v)}`).join(', ')}}`;
  return typeof value === 'string' ? pythonText(value) : String(value);
}
// JSON's escapes are Python's, but for surrogates, which come in pairs here.
const pythonText = (text: string) => JSON.stringify(text);

export function snippets({path, body, stream, grpc}: Request, withKey: boolean): [string, string][] {
  const url = at(path);
  const out: [string, string][] = [
    ['curl', `curl -s${stream ? 'N' : ''} ${url}${withKey ? ` -H "authorization: Bearer $WEIR_KEY"` : ''} -H 'content-type: application/json' \\\n  -d ${quoted(compact(body))}`],
    ['Python', `import json${withKey ? ', os' : ''}, urllib.request

body = ${python(body)}
request = urllib.request.Request(${JSON.stringify(url)}, json.dumps(body).encode(),
                                 {"content-type": "application/json"${withKey ? `, "authorization": "Bearer " + os.environ["WEIR_KEY"]` : ''}})
with urllib.request.urlopen(request) as answer:
${stream ? '    for line in answer:\n        print(line.decode(), end="")' : '    print(json.dumps(json.load(answer), indent=1))'}`],
    ['JavaScript', `const answer = await fetch(${JSON.stringify(url)}, {
  method: "POST",
  headers: {"content-type": "application/json"${withKey ? `, authorization: \`Bearer \${process.env.WEIR_KEY}\`` : ''}},
  body: JSON.stringify(${compact(body)}),
});
${stream ? 'for await (const piece of answer.body.pipeThrough(new TextDecoderStream())) process.stdout.write(piece);' : 'console.log(JSON.stringify(await answer.json(), null, 1));'}`],
  ];
  if (grpc) {
    const plain = location.protocol === 'https:' ? '' : ' -plaintext';
    out.push(['grpcurl', `grpcurl${plain}${withKey ? ` -H "authorization: Bearer $WEIR_KEY"` : ''} -d ${quoted(compact(grpc.body))} \\\n  ${location.hostname}:${location.port || (plain ? 80 : 443)} ${grpc.service}/${grpc.method}`]);
  }
  return out;
}

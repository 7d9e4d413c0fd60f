// An issuer of tokens, made with the npm package `jose`: it serves its keys as a JWKS document and says tokens.
// NODE_PATH says where the package is.
//   node jose_client.js    prints one line of JSON: {"url": "…", "good": {name: token}, "bad": {name: token}}; for each line
//                          on standard input it changes its keys, and prints {"token": "…"}, which one of them has signed
const http = require('http');
const jose = require('jose');

const ISSUER = 'https://issuer.example';
// Each name is the algorithm of the token's header, and the curve where the algorithm leaves it open.
const ALGORITHMS = ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES256', 'ES384', 'ES512', 'EdDSA Ed25519', 'EdDSA Ed448', 'Ed25519'];

let keys = [];

async function newKey(name) {
  const [alg, crv] = name.split(' ');
  const { publicKey, privateKey } = await jose.generateKeyPair(alg, { crv, extractable: true });
  const jwk = await jose.exportJWK(publicKey);
  jwk.kid = await jose.calculateJwkThumbprint(jwk);
  jwk.use = 'sig';
  return { alg, jwk, privateKey };
}

function claims(more = {}) {
  return new jose.SignJWT({ scope: 'openid weir:infer', ...more }).setIssuer(ISSUER).setAudience('weir').setSubject('alice').setIssuedAt();
}

function sign(key, token, header = {}) {
  return token.setProtectedHeader({ alg: key.alg, kid: key.jwk.kid, typ: 'JWT', ...header }).sign(key.privateKey);
}

async function good() {
  const tokens = {};
  for (const name of ALGORITHMS) {
    try {
      const key = await newKey(name);
      tokens[name] = await sign(key, claims().setExpirationTime('10m'));
      keys.push(key);
    } catch (error) {
      if (!(error instanceof jose.errors.JOSENotSupported)) throw error;  // this jose has no such algorithm
    }
  }
  tokens['without kid'] = await claims().setExpirationTime('10m').setProtectedHeader({ alg: 'ES512' }).sign(keys.find((k) => k.alg === 'ES512').privateKey);
  return tokens;
}

async function bad() {
  const key = keys.find((k) => k.alg === 'ES256'), rsa = keys.find((k) => k.alg === 'RS256');
  const stranger = { ...(await newKey('ES512')), jwk: keys.find((k) => k.alg === 'ES512').jwk };
  const soon = () => claims().setExpirationTime('10m');
  const token = await sign(key, soon());
  const [header, payload, signature] = token.split('.');
  const secret = new TextEncoder().encode(await jose.exportSPKI(await jose.importJWK(rsa.jwk, 'RS256')));
  return {
    expired: await sign(key, claims().setExpirationTime(Math.floor(Date.now() / 1000) - 3600)),
    'not yet valid': await sign(key, soon().setNotBefore('1h')),
    'another audience': await sign(key, soon().setAudience('other')),
    'another issuer': await sign(key, soon().setIssuer('https://other.example')),
    'another key under a known kid': await sign(stranger, soon()),
    'the public key as a secret': await soon().setProtectedHeader({ alg: 'HS256', kid: rsa.jwk.kid }).sign(secret),
    'a secret': await soon().setProtectedHeader({ alg: 'HS512' }).sign(new Uint8Array(64)),
    unsecured: new jose.UnsecuredJWT({ sub: 'alice' }).setIssuer(ISSUER).setAudience('weir').setExpirationTime('10m').encode(),
    'an extension': await soon().setProtectedHeader({ alg: 'ES256', kid: key.jwk.kid, crit: ['b64'], b64: true }).sign(key.privateKey),
    'another type': await sign(key, soon(), { typ: 'logout+jwt' }),
    'another payload': `${header}.${jose.base64url.encode(JSON.stringify({ ...jose.decodeJwt(token), sub: 'root' }))}.${signature}`,
    encrypted: await new jose.EncryptJWT({ sub: 'alice' }).setProtectedHeader({ alg: 'dir', enc: 'A256GCM' }).encrypt(new Uint8Array(32)),
  };
}

async function main() {
  const tokens = { good: await good(), bad: await bad() };
  const server = http.createServer((_, answer) => {
    answer.setHeader('content-type', 'application/jwk-set+json');
    answer.end(JSON.stringify({ keys: keys.map((key) => key.jwk) }));
  });
  server.listen(0, '127.0.0.1', () => console.log(JSON.stringify({ url: `http://127.0.0.1:${server.address().port}/jwks`, ...tokens })));
  require('readline').createInterface({ input: process.stdin }).on('line', async () => {
    keys = [await newKey('ES512')];
    console.log(JSON.stringify({ token: await sign(keys[0], claims().setExpirationTime('10m')) }));
  }).on('close', () => process.exit(0));
}

main();

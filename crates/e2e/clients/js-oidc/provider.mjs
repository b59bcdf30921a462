// An OpenID provider for tests: `node provider.mjs PORT CALLBACK PUBLIC_CALLBACK SECRET`, the addresses that its two clients are
// answered at and the secret of the first. Any name signs in with any password.
//
// POST /mode with one word makes it answer wrongly from then on: the ID token is of another sign-in, for another client, not
// signed, and so on; `right` ends that.

import { SignJWT, UnsecuredJWT, decodeJwt, decodeProtectedHeader, exportJWK, generateKeyPair } from 'jose';
import Provider from 'oidc-provider';

const [port, callback, publicCallback, secret] = process.argv.slice(2);
const issuer = `http://localhost:${port}`;
const groups = { ann: ['staff', 'ops'], bob: ['staff', 'on-call'], eve: ['staff'] };

const pairs = {};
for (const alg of ['RS256', 'ES256']) pairs[alg] = await generateKeyPair(alg, { extractable: true });
const other = await generateKeyPair('RS256', { extractable: true });
const keys = await Promise.all(
  Object.entries(pairs).map(async ([alg, pair]) => ({ ...(await exportJWK(pair.privateKey)), alg, kid: alg, use: 'sig' })),
);

const client = (id, alg, address, more) => ({
  client_id: id,
  redirect_uris: [address],
  response_types: ['code'],
  grant_types: ['authorization_code'],
  id_token_signed_response_alg: alg,
  ...more,
});

const provider = new Provider(issuer, {
  clients: [
    client('rialto', 'RS256', callback, { client_secret: secret, token_endpoint_auth_method: 'client_secret_basic' }),
    client('rialto-public', 'ES256', publicCallback, { token_endpoint_auth_method: 'none' }),
  ],
  jwks: { keys },
  claims: { openid: ['sub', 'groups', 'org'], profile: ['name'], email: ['email'] },
  conformIdTokenClaims: false,
  cookies: { keys: ['only for tests'] },
  features: { devInteractions: { enabled: true } },
  findAccount: (_, id) => ({
    accountId: id,
    claims: () => ({ sub: id, groups: groups[id] ?? [], org: 'north', name: id, email: `${id}@example.com` }),
  }),
  ttl: { AccessToken: 3600, AuthorizationCode: 60, Grant: 3600, IdToken: 3600, Interaction: 3600, Session: 3600 },
});

const hour = 3600;
const now = () => Math.floor(Date.now() / 1000);
const wrong = {
  nonce: (claims) => ({ ...claims, nonce: 'another' }),
  audience: (claims) => ({ ...claims, aud: 'another' }),
  party: (claims) => ({ ...claims, aud: [claims.aud, 'another'] }),
  issuer: (claims) => ({ ...claims, iss: 'https://another.example' }),
  old: (claims) => ({ ...claims, iat: now() - 2 * hour, exp: now() - hour }),
  unsigned: (claims) => claims,
  foreign: (claims) => claims,
};

let mode = 'right';

async function falsified(token) {
  const claims = wrong[mode](decodeJwt(token));
  if (mode === 'unsigned') return new UnsecuredJWT(claims).encode();
  const header = decodeProtectedHeader(token);
  const pair = mode === 'foreign' ? other : pairs[header.alg];
  return new SignJWT(claims).setProtectedHeader(header).sign(pair.privateKey);
}

provider.use(async (context, next) => {
  if (context.path === '/mode') {
    mode = new URLSearchParams(context.querystring).get('is');
    context.body = mode;
    return;
  }
  if (context.path !== '/token') return next();
  const clock = Date.now;
  // The code is redeemed an hour later, by the provider's clock.
  if (mode === 'late') Date.now = () => clock() + hour * 1000;
  try {
    await next();
  } finally {
    Date.now = clock;
  }
  if (context.body?.id_token && wrong[mode]) context.body = { ...context.body, id_token: await falsified(context.body.id_token) };
});

provider.listen(Number(port), 'localhost', () => console.log('ready'));

// A request as it is shown and copied. Its credential is in neither.

import type { CallRequest } from './requests';

function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

/** Extra headers that have a credential, too. */
const SECRET = /^(authorization|proxy-authorization|cookie|x-api-key)$/i;

/** The headers with every credential hidden. */
export function shownHeaders({ headers, credential }: CallRequest): [string, string][] {
  const shown = headers.map(([name, value]): [string, string] => [name, SECRET.test(name) ? '••••••' : value]);
  if (!credential) return shown;
  const [name] = credential;
  return [...shown, [name, name === 'Authorization' ? 'Bearer ••••••' : '••••••']];
}

/** The command that makes the same request. The credential is in the variable A2A_KEY, the value of an extra header that has one
 *  in A2A_HEADER. */
export function curl(request: CallRequest, encoded: Uint8Array | null): string {
  const { method, url, headers, credential, body } = request;
  const words = [`curl -sN${method === 'GET' ? '' : ` -X ${method}`} ${quoted(url)}`];
  for (const [name, value] of headers) words.push(SECRET.test(name) ? `-H "${name}: $A2A_HEADER"` : `-H ${quoted(`${name}: ${value}`)}`);
  if (credential) words.push(credential[0] === 'Authorization' ? '-H "Authorization: Bearer $A2A_KEY"' : '-H "X-Api-Key: $A2A_KEY"');
  if (encoded) words.push('--data-binary @-');
  else if (body !== null) words.push(`--data-raw ${quoted(body)}`);
  const command = words.join(' \\\n  ');
  return encoded ? `echo ${base64(encoded)} | base64 -d | ${command}` : command;
}

export function base64(bytes: Uint8Array): string {
  let text = '';
  const STEP = 8_192;
  for (let at = 0; at < bytes.length; at += STEP) text += String.fromCharCode(...bytes.subarray(at, at + STEP));
  return btoa(text);
}

export function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}

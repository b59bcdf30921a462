// The forms in which the server shows a task, and commands and programs that ask for it in each.

import { API } from '../api';
import type { TaskRow } from '../api';

/** A form, as `GET /wires` lists it. */
export interface Wire {
  name: string;
  title: string;
  kind: 'json' | 'text';
  /** Tasks that were opened in one of these dialects are its own. */
  dialects: string[];
}

/** The form that the caller of a task speaks. */
export function own(wires: Wire[], dialect: string): string | null {
  return wires.find((wire) => wire.dialects.includes(dialect))?.name ?? null;
}

export interface Snippet {
  label: string;
  text: string;
}

/** A request for a task in a form, as commands and programs write it. */
interface Asked {
  method: 'GET' | 'POST';
  url: string;
  /** Without the credential. */
  headers: [string, string][];
  body: string | null;
}

const KEY = 'RIALTO_KEY';

function asked(wire: Wire, origin: string, task: TaskRow): Asked | null {
  const agent = `${origin}/a2a/${encodeURIComponent(task.agent)}`;
  const id = task.alias ?? task.id;
  const get = (url: string, headers: [string, string][]): Asked => ({ method: 'GET', url, headers, body: null });
  const rpc = (header: [string, string]): Asked => {
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tasks/get', params: { id } });
    return { method: 'POST', url: agent, headers: [header, ['Content-Type', 'application/json']], body };
  };
  switch (wire.name) {
    case '1.0':
      return get(`${agent}/tasks/${encodeURIComponent(id)}`, [['A2A-Version', '1.0']]);
    case '0.3-rest':
      return get(`${agent}/v1/tasks/${encodeURIComponent(id)}`, [['A2A-Version', '0.3']]);
    case '0.3':
    case '0.2':
      return rpc(['A2A-Version', wire.name]);
    case '0.1':
      return rpc(['X-A2A-Dialect', 'a2a_v0_1']);
    default:
      // The form of a product has addresses of its own; the admin API shows the same.
      return isGrpc(wire) ? null : get(`${origin}${API}/tasks/${encodeURIComponent(task.id)}/wire?as=${encodeURIComponent(wire.name)}`, []);
  }
}

function isGrpc(wire: Wire): boolean {
  return wire.kind === 'text';
}

/** The commands and programs that ask for a task in a form. */
export function snippets(wire: Wire, origin: string, task: TaskRow): Snippet[] {
  const ask = asked(wire, origin, task);
  const rialto = { label: 'rialto', text: `rialto task show ${quoted(task.id)}` };
  if (!ask) return [{ label: 'grpcurl', text: grpcurl(wire, origin, task) }, rialto, { label: 'Python', text: grpcPython(wire, origin, task) }];
  const python = wire.name === '1.0' ? sdkPython(origin, task) : httpxPython(ask);
  return [{ label: 'curl', text: curl(ask) }, rialto, { label: 'Python', text: python }, { label: 'JavaScript', text: javascript(ask) }];
}

function curl({ url, headers, body }: Asked): string {
  const said = headers.map(([name, value]) => `-H ${quoted(`${name}: ${value}`)}`);
  const data = body === null ? [] : ['-d', quoted(body)];
  return ['curl -s', quoted(url), ...said, `-H "Authorization: Bearer $${KEY}"`, ...data].join(' ');
}

/** A text as the shell takes it. */
function quoted(text: string): string {
  return /^[\w.:/@%+=-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

/** A text in a program: both languages read the escapes of JSON. */
function literal(text: string): string {
  return JSON.stringify(text);
}

function sdkPython(origin: string, task: TaskRow): string {
  return `# pip install "a2a-sdk>=1,<2"
import asyncio
import os

import httpx
from a2a.client import ClientConfig, ClientFactory
from a2a.types.a2a_pb2 import GetTaskRequest
from google.protobuf.json_format import MessageToJson


async def main():
    headers = {"Authorization": "Bearer " + os.environ["${KEY}"]}
    async with httpx.AsyncClient(headers=headers, timeout=60) as http:
        factory = ClientFactory(ClientConfig(httpx_client=http, streaming=False))
        client = await factory.create_from_url(${literal(`${origin}/a2a/${encodeURIComponent(task.agent)}`)})
        task = await client.get_task(GetTaskRequest(id=${literal(task.alias ?? task.id)}))
        print(MessageToJson(task))


asyncio.run(main())
`;
}

function httpxPython({ method, url, headers, body }: Asked): string {
  const said = headers.map(([name, value]) => `    ${literal(name)}: ${literal(value)},\n`).join('');
  const content = body === null ? '' : `\n    content=${literal(body)},`;
  return `# pip install httpx
import json
import os

import httpx

headers = {
    "Authorization": "Bearer " + os.environ["${KEY}"],
${said}}
answer = httpx.request(
    ${literal(method)},
    ${literal(url)},
    headers=headers,${content}
    timeout=60,
)
answer.raise_for_status()
print(json.dumps(answer.json(), indent=2))
`;
}

function javascript({ method, url, headers, body }: Asked): string {
  const said = headers.map(([name, value]) => `    ${literal(name)}: ${literal(value)},\n`).join('');
  const content = body === null ? '' : `\n  body: ${literal(body)},`;
  return `// Node.js 18 or newer, as a module (.mjs)
const answer = await fetch(${literal(url)}, {
  method: ${literal(method)},
  headers: {
    Authorization: \`Bearer \${process.env.${KEY}}\`,
${said}  },${content}
});
if (!answer.ok) throw new Error(\`status \${answer.status}: \${await answer.text()}\`);
console.log(JSON.stringify(await answer.json(), null, 2));
`;
}

/** The packages of both generations, and how each names a task. */
function grpc(wire: Wire, task: TaskRow): { service: string; member: string; value: string; sdk: string; module: string } {
  const id = task.alias ?? task.id;
  return wire.name === 'grpc'
    ? { service: 'lf.a2a.v1.A2AService', member: 'id', value: id, sdk: 'a2a-sdk[grpc]>=1,<2', module: 'a2a.types' }
    : { service: 'a2a.v1.A2AService', member: 'name', value: `tasks/${id}`, sdk: 'a2a-sdk[grpc]>=0.3,<1', module: 'a2a.grpc' };
}

function grpcurl(wire: Wire, origin: string, task: TaskRow): string {
  const { service, member, value } = grpc(wire, task);
  const { host, protocol } = new URL(origin);
  const plain = protocol === 'https:' ? [] : ['-plaintext'];
  const address = /:\d+$/.test(host) ? host : `${host}:${protocol === 'https:' ? 443 : 80}`;
  const named = `-H ${quoted(`x-a2a-agent: ${task.agent}`)} -H "authorization: Bearer $${KEY}"`;
  return ['grpcurl', ...plain, named, '-d', quoted(JSON.stringify({ [member]: value })), quoted(address), `${service}/GetTask`].join(' ');
}

function grpcPython(wire: Wire, origin: string, task: TaskRow): string {
  const { member, value, sdk, module } = grpc(wire, task);
  const { host, protocol } = new URL(origin);
  const isTls = protocol === 'https:';
  const address = /:\d+$/.test(host) ? host : `${host}:${isTls ? 443 : 80}`;
  const channel = isTls ? `grpc.secure_channel(${literal(address)}, grpc.ssl_channel_credentials())` : `grpc.insecure_channel(${literal(address)})`;
  return `# pip install "${sdk}"
import os

import grpc
from ${module} import a2a_pb2, a2a_pb2_grpc

metadata = [
    ("x-a2a-agent", ${literal(task.agent)}),
    ("authorization", "Bearer " + os.environ["${KEY}"]),
]
with ${channel} as channel:
    stub = a2a_pb2_grpc.A2AServiceStub(channel)
    print(stub.GetTask(a2a_pb2.GetTaskRequest(${member}=${literal(value)}), metadata=metadata, timeout=60))
`;
}

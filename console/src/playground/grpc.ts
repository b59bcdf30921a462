// Messages of gRPC as JSON, and the frames of gRPC-Web. Loaded with the first call over gRPC.

import { createFileRegistry, fromBinary, fromJson, toBinary, toJson, type DescMethod, type FileRegistry, type JsonValue } from '@bufbuild/protobuf';
import { FileDescriptorProtoSchema, file_google_protobuf_empty, file_google_protobuf_struct, file_google_protobuf_timestamp } from '@bufbuild/protobuf/wkt';
import { v03, v1 } from 'virtual:descriptors';
import { fromBase64 } from './curl';
import type { GrpcCall } from './requests';

const KNOWN = [file_google_protobuf_empty, file_google_protobuf_struct, file_google_protobuf_timestamp];
const TRAILERS = 0x80;
const HEAD = 5;

function registry(descriptor: string): FileRegistry {
  const file = fromBinary(FileDescriptorProtoSchema, fromBase64(descriptor));
  return createFileRegistry(file, (name) => KNOWN.find((known) => `${known.name}.proto` === name));
}

const registries = new Map<GrpcCall['service'], FileRegistry>();

function methodOf({ service, method }: GrpcCall): DescMethod {
  let known = registries.get(service);
  if (!known) {
    known = registry(service === 'a2a.v1.A2AService' ? v03 : v1);
    registries.set(service, known);
  }
  const found = known.getService(service)?.methods.find(({ name }) => name === method);
  if (!found) throw new Error(`${service} has no method ${method}`);
  return found;
}

/** The body of a request: one frame with its message. */
export function encode(call: GrpcCall): Uint8Array<ArrayBuffer> {
  const { input } = methodOf(call);
  const message = toBinary(input, fromJson(input, call.message as JsonValue));
  const frame = new Uint8Array(HEAD + message.length);
  new DataView(frame.buffer).setUint32(1, message.length);
  frame.set(message, HEAD);
  return frame;
}

export interface WebFrame {
  bytes: number;
  /** A message of the answer. */
  message?: unknown;
  /** The trailers, which are the last frame. */
  trailers?: [string, string][];
}

/** Reads the frames of an answer from the pieces that come. */
export class FrameReader {
  #method: DescMethod;
  #rest: Uint8Array = new Uint8Array();

  constructor(call: GrpcCall) {
    this.#method = methodOf(call);
  }

  push(piece: Uint8Array): WebFrame[] {
    const bytes = new Uint8Array(this.#rest.length + piece.length);
    bytes.set(this.#rest);
    bytes.set(piece, this.#rest.length);
    const frames: WebFrame[] = [];
    let at = 0;
    while (bytes.length - at >= HEAD) {
      const size = new DataView(bytes.buffer, at + 1).getUint32(0);
      const end = at + HEAD + size;
      if (bytes.length < end) break;
      frames.push(this.#frame(bytes[at] ?? 0, bytes.subarray(at + HEAD, end)));
      at = end;
    }
    this.#rest = bytes.subarray(at);
    return frames;
  }

  #frame(flag: number, content: Uint8Array): WebFrame {
    if (flag & TRAILERS) return { bytes: content.length, trailers: trailersOf(new TextDecoder().decode(content)) };
    const { output } = this.#method;
    return { bytes: content.length, message: toJson(output, fromBinary(output, content)) };
  }
}

function trailersOf(text: string): [string, string][] {
  return text.split('\r\n').flatMap((line): [string, string][] => {
    const at = line.indexOf(':');
    return at < 1 ? [] : [[line.slice(0, at).toLowerCase(), line.slice(at + 1).trim()]];
  });
}

const CODES = [
  'OK', 'CANCELLED', 'UNKNOWN', 'INVALID_ARGUMENT', 'DEADLINE_EXCEEDED', 'NOT_FOUND', 'ALREADY_EXISTS', 'PERMISSION_DENIED', 'RESOURCE_EXHAUSTED',
  'FAILED_PRECONDITION', 'ABORTED', 'OUT_OF_RANGE', 'UNIMPLEMENTED', 'INTERNAL', 'UNAVAILABLE', 'DATA_LOSS', 'UNAUTHENTICATED',
];

/** The error that headers or trailers tell, if they do. */
export function statusError(pairs: [string, string][]): string {
  const value = (name: string): string => pairs.find(([known]) => known === name)?.[1] ?? '';
  const code = Number(value('grpc-status') || '0');
  if (code === 0) return '';
  let words = value('grpc-message');
  try {
    words = decodeURIComponent(words);
  } catch {
    // As it came.
  }
  return `gRPC status ${code} ${CODES[code] ?? ''}: ${words}`;
}

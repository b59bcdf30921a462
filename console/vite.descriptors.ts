// Descriptors of the packages of gRPC, made from their .proto files when the console is built: the module
// `virtual:descriptors` exports each as the bytes of a FileDescriptorProto, in base64.

import { create, toBinary, type MessageInitShape } from '@bufbuild/protobuf';
import {
  FieldDescriptorProto_Label as Label,
  FieldDescriptorProto_Type as Kind,
  FileDescriptorProtoSchema,
  type DescriptorProtoSchema,
  type EnumDescriptorProtoSchema,
  type FieldDescriptorProtoSchema,
  type ServiceDescriptorProtoSchema,
} from '@bufbuild/protobuf/wkt';
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import protobuf from 'protobufjs';
import type { Plugin } from 'vite';

type MessageInit = MessageInitShape<typeof DescriptorProtoSchema>;
type FieldInit = MessageInitShape<typeof FieldDescriptorProtoSchema>;

const MODULE = 'virtual:descriptors';
const FOLDER = '../crates/dialects/proto';
const FILES = { v1: 'lf/a2a/v1/a2a.proto', v03: 'a2a/v1/a2a.proto' };
/** The files of protobuf itself that ours import. The library that reads the descriptors has them. */
const KNOWN = ['empty', 'struct', 'timestamp'].map((name) => `google/protobuf/${name}.proto`);

const SCALARS: Record<string, Kind> = {
  double: Kind.DOUBLE,
  float: Kind.FLOAT,
  int64: Kind.INT64,
  uint64: Kind.UINT64,
  int32: Kind.INT32,
  bool: Kind.BOOL,
  string: Kind.STRING,
  bytes: Kind.BYTES,
  uint32: Kind.UINT32,
};

export function descriptors(): Plugin {
  const resolved = `\0${MODULE}`;
  return {
    name: 'descriptors',
    resolveId: (id) => (id === MODULE ? resolved : undefined),
    load(id) {
      if (id !== resolved) return undefined;
      const lines = Object.entries(FILES).map(([name, file]) => {
        const path = resolve(import.meta.dirname, FOLDER, file);
        this.addWatchFile(path);
        const bytes = described(file, readFileSync(path, 'utf8'));
        return `export const ${name} = '${Buffer.from(bytes).toString('base64')}';`;
      });
      return lines.join('\n');
    },
  };
}

function described(name: string, text: string): Uint8Array {
  const root = new protobuf.Root();
  for (const file of KNOWN) {
    const known = protobuf.common.get(file)?.nested;
    if (known) root.addJSON(known);
  }
  const packageName = protobuf.parse(text, root, { keepCase: true }).package ?? '';
  root.resolveAll();
  const members = root.lookup(packageName);
  if (!(members instanceof protobuf.Namespace)) throw new Error(`${name} has no package`);
  const all = members.nestedArray;
  return toBinary(
    FileDescriptorProtoSchema,
    create(FileDescriptorProtoSchema, {
      name,
      package: packageName,
      syntax: 'proto3',
      dependency: KNOWN,
      messageType: all.filter((one) => one instanceof protobuf.Type).map(message),
      enumType: all.filter((one) => one instanceof protobuf.Enum).map(enumeration),
      service: all.filter((one) => one instanceof protobuf.Service).map(service),
    }),
  );
}

function message(type: protobuf.Type): MessageInit {
  const nested = type.nestedArray;
  const maps = type.fieldsArray.filter((field) => field instanceof protobuf.MapField);
  return {
    name: type.name,
    field: type.fieldsArray.map((one) => field(type, one)),
    oneofDecl: type.oneofsArray.map(({ name }) => ({ name })),
    nestedType: [...nested.filter((one) => one instanceof protobuf.Type).map(message), ...maps.map(entry)],
    enumType: nested.filter((one) => one instanceof protobuf.Enum).map(enumeration),
  };
}

function field(type: protobuf.Type, one: protobuf.Field): FieldInit {
  const at = one.partOf ? { oneofIndex: type.oneofsArray.indexOf(one.partOf) } : {};
  const jsonName: unknown = one.jsonName;
  return {
    name: one.name,
    number: one.id,
    label: one.repeated || one.map ? Label.REPEATED : Label.OPTIONAL,
    proto3Optional: one.options?.['proto3_optional'] === true,
    ...(typeof jsonName === 'string' ? { jsonName } : {}),
    ...at,
    ...(one.map ? { type: Kind.MESSAGE, typeName: `${type.fullName}.${entryName(one)}` } : kind(one)),
  };
}

function kind(one: protobuf.Field): FieldInit {
  if (one.resolvedType instanceof protobuf.Type) return { type: Kind.MESSAGE, typeName: one.resolvedType.fullName };
  if (one.resolvedType instanceof protobuf.Enum) return { type: Kind.ENUM, typeName: one.resolvedType.fullName };
  const scalar = SCALARS[one.type];
  if (scalar === undefined) throw new Error(`the type ${one.type} of ${one.fullName} is not known`);
  return { type: scalar };
}

function entryName({ name }: protobuf.Field): string {
  const words = name.split('_').map((word) => word.charAt(0).toUpperCase() + word.slice(1));
  return `${words.join('')}Entry`;
}

/** The message that stands for an entry of a map. Its keys are strings. */
function entry(one: protobuf.Field): MessageInit {
  return {
    name: entryName(one),
    options: { mapEntry: true },
    field: [
      { name: 'key', number: 1, label: Label.OPTIONAL, type: Kind.STRING },
      { name: 'value', number: 2, label: Label.OPTIONAL, ...kind(one) },
    ],
  };
}

function enumeration(one: protobuf.Enum): MessageInitShape<typeof EnumDescriptorProtoSchema> {
  return { name: one.name, value: Object.entries(one.values).map(([name, number]) => ({ name, number })) };
}

function service(one: protobuf.Service): MessageInitShape<typeof ServiceDescriptorProtoSchema> {
  return {
    name: one.name,
    method: one.methodsArray.map((method) => ({
      name: method.name,
      inputType: method.resolvedRequestType?.fullName ?? '',
      outputType: method.resolvedResponseType?.fullName ?? '',
      serverStreaming: method.responseStream === true,
    })),
  };
}

// A form made from the JSON schema that an agent gave with its question.

import type { Message } from '../api';

type Json = Record<string, unknown>;

export type Kind = 'text' | 'number' | 'whole' | 'boolean' | 'choice' | 'json';

export interface Field {
  /** The name of the member; empty where the schema is of a single value. */
  name: string;
  label: string;
  help: string;
  kind: Kind;
  required: boolean;
  options: { label: string; value: unknown }[];
  /** What the form begins with: a text, or whether a switch is on. */
  initial: string | boolean;
  least: number | undefined;
  most: number | undefined;
  shortest: number | undefined;
  longest: number | undefined;
}

/** What an operator entered, by the names of fields. */
export type Entries = Record<string, string | boolean>;

const NAMES = ['schema', 'requestedSchema', 'requested_schema', 'jsonSchema', 'json_schema', 'responseSchema', 'response_schema'];

function object(value: unknown): Json | null {
  return value !== null && typeof value === 'object' && !Array.isArray(value) ? (value as Json) : null;
}

function text(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

function number(value: unknown): number | undefined {
  return typeof value === 'number' ? value : undefined;
}

function named(holder: Json | null): Json | null {
  for (const name of NAMES) {
    const schema = object(holder?.[name]);
    if (schema && typeof schema['type'] === 'string') return schema;
  }
  return null;
}

/** The schema in the data or the metadata of a question; one level below a member of the metadata, too. */
export function schemaOf(question: Message | undefined): Json | null {
  const places = [
    ...(question?.parts ?? []).flatMap((part) => [object(part.data), object(part.metadata)]),
    object(question?.metadata),
  ];
  for (const place of places) {
    const found = named(place) ?? Object.values(place ?? {}).map((one) => named(object(one))).find((one) => one !== null);
    if (found) return found;
  }
  return null;
}

/** The fields of a form; none where the schema is of no object and of no single value. */
export function fieldsOf(schema: Json): Field[] {
  const members = object(schema['properties']);
  if (schema['type'] !== 'object') {
    const single = field('', schema, true);
    return single.kind === 'json' ? [] : [single];
  }
  const required = Array.isArray(schema['required']) ? schema['required'] : [];
  return Object.entries(members ?? {}).map(([name, of]) => field(name, object(of) ?? {}, required.includes(name)));
}

function choices(of: Json): { label: string; value: unknown }[] {
  const named = of['oneOf'] ?? of['anyOf'];
  if (Array.isArray(named) && named.every((one) => object(one) && 'const' in (one as Json))) {
    return named.map((one: Json) => ({ value: one['const'], label: text(one['title']) || String(one['const']) }));
  }
  if (!Array.isArray(of['enum'])) return 'const' in of ? [{ value: of['const'], label: String(of['const']) }] : [];
  const labels = Array.isArray(of['enumNames']) ? of['enumNames'] : [];
  return of['enum'].map((value: unknown, at) => ({ value, label: text(labels[at]) || (typeof value === 'string' ? value : JSON.stringify(value)) }));
}

function kindOf(of: Json, options: unknown[]): Kind {
  if (options.length > 0) return 'choice';
  const type = Array.isArray(of['type']) ? of['type'].find((one) => one !== 'null') : of['type'];
  if (type === 'string') return 'text';
  if (type === 'number') return 'number';
  if (type === 'integer') return 'whole';
  return type === 'boolean' ? 'boolean' : 'json';
}

function field(name: string, of: Json, required: boolean): Field {
  const options = choices(of);
  const kind = kindOf(of, options);
  const usual = of['default'];
  const at = options.findIndex((option) => JSON.stringify(option.value) === JSON.stringify(usual));
  const initial =
    kind === 'boolean'
      ? usual === true
      : kind === 'choice'
        ? at === -1 ? '' : String(at)
        : usual === undefined ? '' : typeof usual === 'string' && kind === 'text' ? usual : JSON.stringify(usual);
  return {
    name,
    label: text(of['title']) || name || 'Answer',
    help: text(of['description']),
    kind,
    required,
    options,
    initial,
    least: number(of['minimum']),
    most: number(of['maximum']),
    shortest: number(of['minLength']),
    longest: number(of['maxLength']),
  };
}

/** The value of a field; undefined for one that is left empty. */
function entered(field: Field, entry: string | boolean | undefined): unknown {
  if (field.kind === 'boolean') return entry === true;
  const said = typeof entry === 'string' ? entry : '';
  if (said === '') return undefined;
  if (field.kind === 'choice') return field.options[Number(said)]?.value;
  if (field.kind === 'number' || field.kind === 'whole') return Number(said);
  return field.kind === 'json' ? (JSON.parse(said) as unknown) : said;
}

/** The value that the entries make, or why they make none. */
export function valueOf(fields: Field[], entries: Entries): { value: unknown } | { wrong: string } {
  const value: Json = {};
  for (const one of fields) {
    let found: unknown;
    try {
      found = entered(one, entries[one.name]);
    } catch {
      return { wrong: `${one.label} must be JSON` };
    }
    if (found === undefined && one.required) {
      // An empty text is an answer unless the schema asks for a longer one.
      if (one.kind !== 'text' || (one.shortest ?? 0) > 0) return { wrong: `${one.label} is missing` };
      found = '';
    }
    if (typeof found === 'number' && (Number.isNaN(found) || (one.kind === 'whole' && !Number.isInteger(found)))) {
      return { wrong: `${one.label} must be a ${one.kind === 'whole' ? 'whole number' : 'number'}` };
    }
    if (one.name === '') return { value: found };
    if (found !== undefined) value[one.name] = found;
  }
  return { value };
}

import { existsSync, readFileSync } from 'node:fs';
import { type Document, type ErrorCode, LineCounter, type Node, parseDocument, visit } from 'yaml';
import { failureCode } from '../core/errors.ts';
import { isObject } from '../core/json.ts';
import type { Schema } from '../core/schema.ts';
import { type ConfigProblem, ConfigProblems } from './problems.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

const defaultFile = 'tollgate.yaml';
/** Used in error messages instead of a file name. */
export const noFile = 'no configuration file';

/** Replace the parser's messages for common mistakes, which use terms of YAML's grammar. */
const plainMessages: Partial<Record<ErrorCode, string>> = {
  TAB_AS_INDENT: 'YAML does not allow tabs here; indent with spaces',
  BLOCK_AS_IMPLICIT_KEY: 'this line has a second colon; quote the value, or put it on a new line',
  DUPLICATE_KEY: 'this name appears twice in the same section; remove one',
};

const bareVariable = 'inside braces, a string with "${" must be quoted';

const readErrors: Readonly<Record<string, string>> = {
  ENOENT: 'this file does not exist',
  EISDIR: 'this is a folder, not a file',
  EACCES: "this user isn't allowed to read the file",
};

const unanchored = 'this alias (*name) has no anchor; a string that begins with * must be quoted';
/** Generous, because thousands of models may share a list of prices. */
const aliasUsesMax = 10_000;
const circular = 'this alias (*name) refers to a value that contains it';

const unnamed = 'has "${" that is not followed by a variable name and a closing brace';

/** A configuration file as plain data, before variables are substituted. */
export interface ConfigText {
  readonly source: string;
  readonly data: unknown;
}

/** Reads a file. The data is an empty object if no file is named and the default doesn't exist. */
export function readConfigFile(path: string | undefined): ConfigText {
  const file = path ?? (existsSync(defaultFile) ? defaultFile : undefined);
  if (file === undefined) return { source: noFile, data: {} };
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    const message = readErrors[failureCode(error) ?? ''] ?? 'this file cannot be read';
    throw new ConfigProblems(file, [{ path: '', message }]);
  }
  return parseConfigText(file, text);
}

/** Parses YAML. Throws all problems, named after the source. */
export function parseConfigText(file: string, text: string): ConfigText {
  const lines = new LineCounter();
  const document = parseDocument(text, { prettyErrors: true, lineCounter: lines });
  if (document.errors.length > 0) {
    const bare = document.errors.filter(
      ({ pos: [index] }) => text.slice(index - 1, index + 1) === '${',
    );
    // If there is an unquoted `${`, the parser's other errors follow from it.
    const problems = (bare.length > 0 ? bare : document.errors).map((error) => {
      const at = error.linePos?.[0];
      const where = at ? `line ${at.line}, column ${at.col}: ` : '';
      const [sentence = ''] = error.message.split(/ at line|; please use|\n/);
      const plainMessage = bare.length > 0 ? bareVariable : plainMessages[error.code];
      return { path: '', message: `${where}${plainMessage ?? sentence}` };
    });
    throw new ConfigProblems(file, problems);
  }
  const aliasProblems = findAliasProblems(document, lines);
  if (aliasProblems.length > 0) throw new ConfigProblems(file, aliasProblems);
  try {
    return { source: file, data: document.toJS({ maxAliasCount: aliasUsesMax }) ?? {} };
  } catch {
    // The parser rejects nested anchors, which could expand a few lines to millions.
    const message = 'its aliases (*name) expand too much; replace them with their values';
    throw new ConfigProblems(file, [{ path: '', message }]);
  }
}

/**
 * Returns problems with aliases. YAML reads a string such as `*.example.com` as an alias, and it
 * may be a secret, so messages don't repeat it.
 */
function findAliasProblems(document: Document, lines: LineCounter): ConfigProblem[] {
  const problems: ConfigProblem[] = [];
  const anchored = new Map<string, Node>();
  visit(document, {
    Value(_, node) {
      if (node.anchor) anchored.set(node.anchor, node);
    },
    Alias(_, alias, ancestors) {
      const anchor = anchored.get(alias.source);
      if (anchor && !ancestors.includes(anchor)) return;
      const { line, col } = lines.linePos(alias.range?.[0] ?? 0);
      const message = `line ${line}, column ${col}: ${anchor ? circular : unanchored}`;
      problems.push({ path: '', message });
    },
  });
  return problems;
}

/**
 * Replaces `${NAME}` with environment variables everywhere in the file. Variables are strings, so
 * the result is converted to the field's type.
 */
export function substitute(
  data: unknown,
  schema: Schema,
  environment: Environment,
  problems: ConfigProblem[],
): unknown {
  const fill = (text: string, path: string) => {
    // For example `${NAME:-other}`. The string may be a secret, so the message doesn't repeat it.
    if (/\$\{(?![A-Za-z_][A-Za-z0-9_]*\})/.test(text)) {
      problems.push({ path, message: unnamed });
    }
    return text.replace(/\$\{([A-Za-z_][A-Za-z0-9_]*)\}/g, (_, name: string) => {
      const value = environment[name];
      if (value) return value;
      const message = `needs the environment variable ${name}, which is not set`;
      const missing: ConfigProblem = { path, message, variable: name };
      problems.push(missing);
      return '';
    });
  };
  const walk = (value: unknown, rule: Schema, path: string): unknown => {
    if (typeof value === 'string') {
      return value.includes('${') ? convert(fill(value, path), rule) : value;
    }
    if (Array.isArray(value)) {
      return value.map((item, i) => walk(item, rule.items ?? {}, `${path}[${i}]`));
    }
    if (!isObject(value)) return value;
    const fields = Object.entries(value).map(([name, field]) => {
      const inner = rule.properties?.[name] ?? rule.patternProperties?.['^.*$'] ?? {};
      return [name, walk(field, inner, path === '' ? name : `${path}.${name}`)];
    });
    return Object.fromEntries(fields);
  };
  return walk(withoutEmpty(data, schema), schema, '');
}

/** Drops empty sections: YAML reads a section with only comments as null. */
function withoutEmpty(data: unknown, { properties }: Schema): unknown {
  if (!isObject(data)) return data;
  const isSection = (name: string) => /object|array/.test(properties?.[name]?.type ?? '');
  const present = Object.entries(data).filter(
    ([name, value]) => value !== null || !isSection(name),
  );
  return Object.fromEntries(present);
}

/** Converts text from the environment to the type of its field, if it can be converted. */
export function convert(text: string, schema: Schema): unknown {
  const types = [schema, ...(schema.anyOf ?? [])].map((branch) => branch.type);
  if (
    types.some((type) => type === 'integer' || type === 'number') &&
    /^-?\d+(\.\d+)?$/.test(text)
  ) {
    return Number(text);
  }
  if (types.includes('boolean') && (text === 'true' || text === 'false')) return text === 'true';
  return text;
}

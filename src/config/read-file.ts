import { existsSync, readFileSync } from 'node:fs';
import { type Document, type ErrorCode, LineCounter, type Node, parseDocument, visit } from 'yaml';
import { failureCode } from '../core/errors.ts';
import { isObject } from '../core/json.ts';
import type { Schema, ValidationIssue } from '../core/schema.ts';
import { ConfigProblems, type MissingVariable } from './problems.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

const defaultFile = 'tollgate.yaml';
/** Stands in error messages where the file's name would. */
export const noFile = 'no configuration file';

/** Plain messages for common mistakes, where the parser's own would speak of YAML's grammar. */
const plainMessages: Partial<Record<ErrorCode, string>> = {
  TAB_AS_INDENT: 'YAML takes no tabs here; indent with spaces',
  BLOCK_AS_IMPLICIT_KEY:
    'a second colon in one line; put quotes around the text, or break the line',
  DUPLICATE_KEY: 'this name is in the file twice at the same place; keep one of the two',
};

const bareVariable = 'inside of braces a text with "${" in it needs quotes around it';

const readErrors: Readonly<Record<string, string>> = {
  ENOENT: 'this file does not exist',
  EISDIR: 'this is a folder, not a file',
  EACCES: 'this file may not be read by this user',
};

const unanchored =
  'this alias (*name) stands for nothing; a text that begins with * needs quotes around it';
/** Generous, because thousands of models may share one list of prices. */
const aliasUsesMax = 10_000;
const circular = 'this alias (*name) stands for something that it is a part of';

const unnamed = 'has "${" without the name of a variable in braces behind it';

/** A configuration file as plain data, before variables are put in. */
export interface ConfigText {
  readonly source: string;
  readonly data: unknown;
}

/** The data is an empty object if no file was named and the default one does not exist. */
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
  const lines = new LineCounter();
  const document = parseDocument(text, { prettyErrors: true, lineCounter: lines });
  if (document.errors.length > 0) {
    const bare = document.errors.filter(({ pos: [at] }) => text.slice(at - 1, at + 1) === '${');
    // If there are bare `${`, the parser's other errors follow from them.
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
    // The parser refuses anchors nested in each other, which could turn a few lines into millions.
    const message = 'its aliases (*name) repeat too much; write what they stand for';
    throw new ConfigProblems(file, [{ path: '', message }]);
  }
}

/**
 * YAML reads a text such as `*.example.com` as an alias. The text may be a secret, so no message
 * repeats it.
 */
function findAliasProblems(document: Document, lines: LineCounter): ValidationIssue[] {
  const problems: ValidationIssue[] = [];
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
 * Replaces `${NAME}` by environment variables everywhere in the file. The text becomes a number or
 * a boolean where the field wants one, since variables are always text.
 */
export function substitute(
  data: unknown,
  schema: Schema,
  environment: Environment,
  problems: ValidationIssue[],
): unknown {
  const fill = (text: string, path: string) => {
    // Such as `${NAME:-other}` of shells. The text may be a secret, so the message does not repeat
    // it.
    if (/\$\{(?![A-Za-z_][A-Za-z0-9_]*\})/.test(text)) {
      problems.push({ path, message: unnamed });
    }
    return text.replace(/\$\{([A-Za-z_][A-Za-z0-9_]*)\}/g, (_, name: string) => {
      const value = environment[name];
      if (value) return value;
      const message = `needs the environment variable ${name}, which is not set`;
      const missing: MissingVariable = { path, message, variable: name };
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

/**
 * YAML reads a section whose lines are all comments as null: it counts as absent. Single settings
 * that are null stay as they are.
 */
function withoutEmpty(data: unknown, { properties }: Schema): unknown {
  if (!isObject(data)) return data;
  const isSection = (name: string) => /object|array/.test(properties?.[name]?.type ?? '');
  const present = Object.entries(data).filter(
    ([name, value]) => value !== null || !isSection(name),
  );
  return Object.fromEntries(present);
}

/** Text from the environment, converted to the type of its field; unchanged if it does not fit. */
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

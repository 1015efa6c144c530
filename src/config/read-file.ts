import { existsSync, readFileSync } from 'node:fs';
import { type ErrorCode, parseDocument } from 'yaml';
import type { Problem, Schema } from '../core/explain.ts';
import { failureCode } from '../core/failure-code.ts';
import { isObject } from '../core/json.ts';
import { ConfigProblems, type MissingVariable } from './problems.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

const defaultFile = 'tollgate.yaml';

/** The mistakes that people make, where the parser speaks of its grammar. */
const plainWords: Partial<Record<ErrorCode, string>> = {
  TAB_AS_INDENT: 'YAML takes no tabs here; indent with spaces',
  BLOCK_AS_IMPLICIT_KEY:
    'a second colon in one line; put quotes around the text, or break the line',
  DUPLICATE_KEY: 'this name is in the file twice at the same place; keep one of the two',
};

/** A configuration file as plain data, before variables are put in. */
export interface ConfigText {
  readonly source: string;
  readonly data: unknown;
}

/** An empty object when none was asked for or found. */
export function readConfigFile(path: string | undefined): ConfigText {
  const file = path ?? (existsSync(defaultFile) ? defaultFile : undefined);
  if (file === undefined) return { source: 'no configuration file', data: {} };
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (thrown) {
    throw new ConfigProblems(file, [{ path: '', message: unreadable(thrown) }]);
  }
  const document = parseDocument(text, { prettyErrors: true });
  if (document.errors.length > 0) {
    const problems = document.errors.map((error) => {
      const at = error.linePos?.[0];
      const where = at ? `line ${at.line}, column ${at.col}: ` : '';
      const [sentence = ''] = error.message.split(/ at line|; please use|\n/);
      return { path: '', message: `${where}${plainWords[error.code] ?? sentence}` };
    });
    throw new ConfigProblems(file, problems);
  }
  return { source: file, data: document.toJS() ?? {} };
}

function unreadable(thrown: unknown): string {
  const code = failureCode(thrown);
  if (code === 'ENOENT') return 'this file does not exist';
  if (code === 'EISDIR') return 'this is a folder, not a file';
  if (code === 'EACCES') return 'this file may not be read by this user';
  return 'this file cannot be read';
}

/**
 * Puts environment variables in for `${NAME}`, everywhere in the file. The result of a field that
 * wants a number or a truth value is converted, since the environment knows only text.
 */
export function substitute(
  value: unknown,
  schema: Schema,
  environment: Environment,
  problems: Problem[],
  path = '',
): unknown {
  if (typeof value === 'string') return fill(value, schema, environment, problems, path);
  if (Array.isArray(value)) {
    return value.map((item, i) =>
      substitute(item, schema.items ?? {}, environment, problems, `${path}[${i}]`),
    );
  }
  if (!isObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, field]) => {
      const inner = path === '' ? name : `${path}.${name}`;
      const rule = schema.properties?.[name] ?? schema.patternProperties?.['^.*$'] ?? {};
      return [name, substitute(field, rule, environment, problems, inner)];
    }),
  );
}

function fill(
  text: string,
  schema: Schema,
  environment: Environment,
  problems: Problem[],
  path: string,
): unknown {
  if (!text.includes('${')) return text;
  const filled = text.replace(/\$\{([A-Za-z_][A-Za-z0-9_]*)\}/g, (_, name: string) => {
    const value = environment[name];
    if (value === undefined || value === '') {
      const message = `needs the environment variable ${name}, which is not set`;
      const missing: MissingVariable = { path, message, variable: name };
      problems.push(missing);
      return '';
    }
    return value;
  });
  return convert(filled, schema);
}

/** Text from the environment as the type its field wants; left alone where it does not fit. */
export function convert(text: string, schema: Schema): unknown {
  const wanted = [schema, ...(schema.anyOf ?? [])].map((branch) => branch.type);
  if (
    wanted.some((type) => type === 'integer' || type === 'number') &&
    /^-?\d+(\.\d+)?$/.test(text)
  ) {
    return Number(text);
  }
  if (wanted.includes('boolean') && (text === 'true' || text === 'false')) return text === 'true';
  return text;
}

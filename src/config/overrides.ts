import type { Schema } from '../core/explain.ts';
import { isObject } from '../core/json.ts';
import { convert, type Environment } from './read-file.ts';

/** Settings given on the command line; they win over the environment, which wins over the file. */
export interface Flags {
  readonly config?: string;
  readonly host?: string;
  readonly port?: string;
  readonly dataDir?: string;
}

/** A setting from outside the file, with the name of its option or variable for error messages. */
export interface Override {
  readonly path: readonly [string] | readonly [string, string];
  readonly from: string;
  readonly value: string;
}

export function overridesOf(flags: Flags, environment: Environment): Override[] {
  const wanted: [Override['path'], string, string | undefined][] = [
    [['server', 'host'], 'HOST', environment.HOST],
    [['server', 'port'], 'PORT', environment.PORT],
    [['data_dir'], 'TOLLGATE_DATA_DIR', environment.TOLLGATE_DATA_DIR],
    [['database'], 'DATABASE_URL', environment.DATABASE_URL],
    [['redis'], 'REDIS_URL', environment.REDIS_URL],
    [['objects'], 'OBJECTS_URL', environment.OBJECTS_URL],
    [['server', 'host'], '--host', flags.host],
    [['server', 'port'], '--port', flags.port],
    [['data_dir'], '--data-dir', flags.dataDir],
  ];
  return wanted.flatMap(([path, from, value]) => (value ? [{ path, from, value }] : []));
}

export function applyOverrides(
  data: unknown,
  overrides: readonly Override[],
  schema: Schema,
): unknown {
  if (!isObject(data)) return data;
  const result: Record<string, unknown> = { ...data };
  for (const { path, value } of overrides) {
    const [outer, inner] = path;
    const rule = schema.properties?.[outer] ?? {};
    if (inner === undefined) {
      result[outer] = convert(value, rule);
    } else {
      const section = isObject(result[outer]) ? result[outer] : {};
      result[outer] = { ...section, [inner]: convert(value, rule.properties?.[inner] ?? {}) };
    }
  }
  return result;
}

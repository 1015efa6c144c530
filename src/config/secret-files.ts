import { readFileSync } from 'node:fs';
import { failureCode } from '../core/errors.ts';
import { builtinCatalog } from './catalog/index.ts';
import type { ConfigProblem } from './problems.ts';
import type { Environment } from './read-file.ts';

const suffix = '_FILE';

const secretVariables: ReadonlySet<string> = new Set([
  'DATABASE_URL',
  'REDIS_URL',
  'OBJECTS_URL',
  'AWS_ACCESS_KEY_ID',
  'AWS_SECRET_ACCESS_KEY',
  'AWS_SESSION_TOKEN',
  'OTEL_EXPORTER_OTLP_HEADERS',
  'TOLLGATE_BOOTSTRAP_API_KEY',
  'TOLLGATE_BOOTSTRAP_MANAGEMENT_KEY',
  'TOLLGATE_ADMIN_TOKEN',
  'TOLLGATE_SECRET_KEY',
  'TOLLGATE_PREVIOUS_SECRET_KEY',
  ...builtinCatalog.providers.map(({ api_key_env }) => api_key_env),
]);

/**
 * Adds the variables whose values are in files: `NAME_FILE` names the file with the value of
 * `NAME`, as Docker and Kubernetes mount secrets. This applies to secret variables and to those
 * that the configuration file, whose data is `data`, refers to.
 */
export function withSecretFiles(
  environment: Environment,
  data: unknown,
  problems: ConfigProblem[],
): Environment {
  const named = Object.keys(environment).filter((path) => path.endsWith(suffix));
  const values: Record<string, string> = {};
  const text = named.length > 0 ? JSON.stringify(data) : '';
  for (const path of named) {
    const file = environment[path];
    const name = path.slice(0, -suffix.length);
    if (!file || !(secretVariables.has(name) || text.includes(`\${${name}}`))) continue;
    if (environment[name]) {
      const message = `is set together with ${name}; set only one of them`;
      problems.push({ path, message, origin: 'environment' });
    } else {
      const value = readSecretFile(path, file, problems);
      if (value !== undefined) values[name] = value;
    }
  }
  return Object.keys(values).length > 0 ? { ...environment, ...values } : environment;
}

/** Returns the content of the file without the line break at its end. */
function readSecretFile(path: string, file: string, problems: ConfigProblem[]): string | undefined {
  let message = 'names a file that is empty';
  try {
    const value = readFileSync(file, 'utf8').replace(/\r?\n$/, '');
    if (value !== '') return value;
  } catch (error) {
    message = `names a file that can't be read (${failureCode(error) ?? String(error)})`;
  }
  problems.push({ path, message, origin: 'environment' });
  return undefined;
}

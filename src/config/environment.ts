import { Secret } from '../core/secret.ts';
import type { ConfigProblem } from './problems.ts';
import type { Environment } from './read-file.ts';
import { type AwsSource, findObjectCredentials } from './workload.ts';

// This variable would disable certificate checks for Redis and S3, because the runtime's clients
// read it. Deleting it here, before anything connects, also hides it from workers.
delete process.env.NODE_TLS_REJECT_UNAUTHORIZED;

/** The environment of the process. Other modules import it from here. */
export const environment: Environment = process.env;

/** S3 credentials, from the standard AWS variables. */
export interface S3Credentials {
  readonly accessKeyId: Secret | null;
  readonly secretAccessKey: Secret | null;
  readonly sessionToken: Secret | null;
  /** Where temporary credentials come from, if the URL says so. */
  readonly workload: AwsSource | null;
  /** Used if the URL doesn't name a region. */
  readonly region: string | null;
}

export function readS3Credentials(
  objectsUrl: string,
  environment: Environment,
  problems: ConfigProblem[],
): S3Credentials {
  const secret = (text: string | undefined) => (text ? new Secret(text) : null);
  const found = findObjectCredentials(objectsUrl, environment);
  if (typeof found === 'string') {
    problems.push({ path: 'objects', message: found, variable: 'AWS_ROLE_ARN' });
  }
  return {
    accessKeyId: secret(environment.AWS_ACCESS_KEY_ID),
    secretAccessKey: secret(environment.AWS_SECRET_ACCESS_KEY),
    sessionToken: secret(environment.AWS_SESSION_TOKEN),
    workload: typeof found === 'string' ? null : found,
    region: environment.AWS_REGION || null,
  };
}

/** Where traces are sent. Set by OpenTelemetry's variables, so there is no option for it. */
export interface Tracing {
  /** The collector's URL for traces. */
  readonly url: string;
  /** The collector's credentials, if it needs any. */
  readonly headers: Readonly<Record<string, Secret>>;
  readonly serviceName: string;
}

/** Returns null if no endpoint is set. Tracing is then off. */
export function readTracing(environment: Environment, problems: ConfigProblem[]): Tracing | null {
  const { OTEL_EXPORTER_OTLP_ENDPOINT: endpoint, OTEL_EXPORTER_OTLP_HEADERS: headers } =
    environment;
  const serviceName = environment.OTEL_SERVICE_NAME || 'tollgate';
  if (!endpoint) return null;
  if (!/^https?:$/.test(URL.parse(endpoint)?.protocol ?? '')) {
    const message = 'must be an http(s) URL such as http://127.0.0.1:4318';
    problems.push({ path: 'OTEL_EXPORTER_OTLP_ENDPOINT', message });
    return null;
  }
  const url = `${endpoint.replace(/\/+$/, '')}/v1/traces`;
  return { url, headers: readHeaders(headers ?? '', problems), serviceName };
}

/** Reads `name=value,name=value`, where special characters are percent-encoded. */
function readHeaders(text: string, problems: ConfigProblem[]): Record<string, Secret> {
  const pairs = text.split(',').filter((pair) => pair.trim() !== '');
  const read = pairs.map(readHeader);
  if (read.includes(undefined)) {
    const message = 'must be name=value pairs separated by commas';
    problems.push({ path: 'OTEL_EXPORTER_OTLP_HEADERS', message });
  }
  return Object.fromEntries(read.filter((header) => header !== undefined));
}

function readHeader(pair: string): [string, Secret] | undefined {
  const [, name = '', encoded = ''] = /^\s*([!#$%&'*+.^_`|~\w-]+)\s*=\s*(.*?)\s*$/.exec(pair) ?? [];
  try {
    const value = decodeURIComponent(encoded);
    // The runtime would reject a header with any other character at every call.
    return name !== '' && /^[\x20-\x7e]+$/.test(value) ? [name, new Secret(value)] : undefined;
  } catch {
    return undefined;
  }
}

/** Keys and credits that an unattended start creates if they are missing. */
export interface Bootstrap {
  readonly apiKey: Secret | null;
  readonly managementKey: Secret | null;
  readonly adminToken: Secret | null;
  readonly credits: number;
}

const defaultCredits = 10_000_000;

/**
 * Reads the keys for an unattended start from the environment. Their format is validated, because a
 * short key could be guessed.
 */
export function readBootstrap(environment: Environment, problems: ConfigProblem[]): Bootstrap {
  const key = (name: string, prefix: string): Secret | null => {
    const value = environment[name];
    if (!value) return null;
    if (!value.startsWith(prefix) || value.length < 32 || !/^[\x21-\x7e]+$/.test(value)) {
      const message = `must start with ${prefix} and have at least 32 characters without spaces`;
      problems.push({ path: name, message });
      return null;
    }
    return new Secret(value);
  };
  return {
    apiKey: key('TOLLGATE_BOOTSTRAP_API_KEY', 'sk-tg-'),
    managementKey: key('TOLLGATE_BOOTSTRAP_MANAGEMENT_KEY', 'sk-mgmt-'),
    adminToken: key('TOLLGATE_ADMIN_TOKEN', 'sk-admin-'),
    credits: readCredits(environment.TOLLGATE_BOOTSTRAP_CREDITS, problems),
  };
}

const secretKeyLengthMin = 32;

/** Reads a key that encrypts tenants' credentials. Null means that the key is in a file instead. */
export function readSecretKey(
  path: 'TOLLGATE_SECRET_KEY' | 'TOLLGATE_PREVIOUS_SECRET_KEY',
  environment: Environment,
  problems: ConfigProblem[],
): Secret | null {
  const value = environment[path];
  if (!value) return null;
  if (value.length < secretKeyLengthMin) {
    problems.push({ path, message: `must have at least ${secretKeyLengthMin} characters` });
    return null;
  }
  // A weak previous key is accepted, because it is on its way out.
  if (path === 'TOLLGATE_PREVIOUS_SECRET_KEY' || !isGuessable(value)) return new Secret(value);
  const message =
    'is easy to guess; generate one, for example with "openssl rand -hex 32". If this one is in ' +
    'use, set TOLLGATE_PREVIOUS_SECRET_KEY to it, and run "tollgate secret rotate" after the start';
  problems.push({ path, message });
  return null;
}

/** A random key of 32 hexadecimal digits has fewer distinct ones only once in 10,000 cases. */
const distinctCharactersMin = 9;

const placeholder = /change.?(me|this|it)|place.?holder|your.?(own.?)?secret|example|password/i;

/** Returns whether a key repeats itself, has few distinct characters, or is a placeholder. */
function isGuessable(value: string): boolean {
  const isRepeated = `${value}${value}`.indexOf(value, 1) < value.length;
  const hasFew = new Set(value).size < distinctCharactersMin;
  return isRepeated || hasFew || placeholder.test(value);
}

function readCredits(text: string | undefined, problems: ConfigProblem[]): number {
  if (!text) return defaultCredits;
  const credits = Number(text);
  if (/^\d+$/.test(text) && Number.isSafeInteger(credits)) return credits;
  const path = 'TOLLGATE_BOOTSTRAP_CREDITS';
  problems.push({ path, message: 'must be a whole number of credits' });
  return defaultCredits;
}

import { Secret } from '../core/secret.ts';
import type { ConfigProblem } from './problems.ts';
import type { Environment } from './read-file.ts';

/** The environment of the process. No other module reads it. */
export const environment: Environment = process.env;

/** S3 credentials, from the standard AWS variables. */
export interface S3Credentials {
  readonly accessKeyId: Secret | null;
  readonly secretAccessKey: Secret | null;
  readonly sessionToken: Secret | null;
  /** Used if the URL doesn't name a region. */
  readonly region: string | null;
}

export function readS3Credentials(environment: Environment): S3Credentials {
  const secret = (text: string | undefined) => (text ? new Secret(text) : null);
  return {
    accessKeyId: secret(environment.AWS_ACCESS_KEY_ID),
    secretAccessKey: secret(environment.AWS_SECRET_ACCESS_KEY),
    sessionToken: secret(environment.AWS_SESSION_TOKEN),
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

/** Returns null if no endpoint is set. Nothing is traced then. */
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

import type { Problem } from '../core/explain.ts';
import { Secret } from '../core/secret.ts';
import type { Environment } from './read-file.ts';

/** Where traces go. The names and their meaning are OpenTelemetry's, so there is no option. */
export interface Tracing {
  /** The whole address of the collector's traces. */
  readonly url: string;
  /** Collectors are paid services too: these hold their credentials. */
  readonly headers: Readonly<Record<string, Secret>>;
  readonly serviceName: string;
}

/** `null` without an endpoint: nothing is traced. */
export function readTracing(environment: Environment, problems: Problem[]): Tracing | null {
  const { OTEL_EXPORTER_OTLP_ENDPOINT: endpoint, OTEL_EXPORTER_OTLP_HEADERS: headers } =
    environment;
  const serviceName = environment.OTEL_SERVICE_NAME || 'tollgate';
  if (!endpoint) return null;
  if (!/^https?:$/.test(URL.parse(endpoint)?.protocol ?? '')) {
    const message = 'must be an http(s) address such as http://127.0.0.1:4318';
    problems.push({ path: 'OTEL_EXPORTER_OTLP_ENDPOINT', message });
    return null;
  }
  const url = `${endpoint.replace(/\/+$/, '')}/v1/traces`;
  return { url, headers: readHeaders(headers ?? '', problems), serviceName };
}

/** `name=value,name=value`, with what would be in the way percent-encoded. */
function readHeaders(text: string, problems: Problem[]): Record<string, Secret> {
  const pairs = text.split(',').filter((pair) => pair.trim() !== '');
  const read = pairs.map(readHeader);
  if (read.includes(undefined)) {
    const message = 'must be name=value pairs with commas between them';
    problems.push({ path: 'OTEL_EXPORTER_OTLP_HEADERS', message });
  }
  return Object.fromEntries(read.filter((header) => header !== undefined));
}

function readHeader(pair: string): [string, Secret] | undefined {
  const [, name = '', encoded = ''] = /^\s*([!#$%&'*+.^_`|~\w-]+)\s*=\s*(.*?)\s*$/.exec(pair) ?? [];
  try {
    const value = decodeURIComponent(encoded);
    // A header cannot hold anything else, and the runtime would say so at every call.
    return name !== '' && /^[\x20-\x7e]+$/.test(value) ? [name, new Secret(value)] : undefined;
  } catch {
    return undefined;
  }
}

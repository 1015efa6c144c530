import { definedFields } from './json.ts';

/**
 * `imageType` is what image endpoints call it; `blame` decides whether a job is tried again;
 * `retryHelps` tells SDKs whether repeating the same request can succeed (it becomes the
 * `x-should-retry` header).
 */
const row = <Status extends number>(
  status: Status,
  imageType: string,
  blame: 'caller' | 'upstream' | 'gateway',
  retryHelps: boolean,
) => ({ status, imageType, blame, retryHelps });

/** Every way Tollgate refuses or fails, in one table. Nothing else in the code invents a status. */
export const errorTable = {
  invalid_request_error: row(400, 'invalid_request_error', 'caller', false),
  invalid_api_key: row(401, 'authentication_error', 'caller', false),
  insufficient_credits: row(402, 'billing_error', 'caller', false),
  forbidden: row(403, 'permission_error', 'caller', false),
  model_capability_mismatch: row(400, 'invalid_request_error', 'caller', false),
  rate_limit_exceeded: row(429, 'rate_limit_error', 'caller', true),
  upstream_error: row(502, 'upstream_error', 'upstream', true),
  service_unavailable: row(503, 'api_error', 'gateway', true),
  internal_error: row(500, 'api_error', 'gateway', true),
};

export type ErrorSymbol = keyof typeof errorTable;

type DefaultStatus = (typeof errorTable)[ErrorSymbol]['status'];

/** A symbol may carry another status than its own. */
type ErrorStatus = DefaultStatus | 404 | 405 | 409 | 413 | 415 | 426 | 504;

interface ErrorDetails {
  readonly status?: ErrorStatus;
  /** Path of the offending field, as a client would write it: `messages[2].content[0].text`. */
  readonly param?: string;
  readonly retryAfterSeconds?: number;
  /** Overrides the table when this one case differs from its symbol. */
  readonly retryHelps?: boolean;
  /** The providers have too much to do: Anthropic's clients know a status of its own for it. */
  readonly isOverload?: boolean;
  /** The message without words of the request, where it repeats some: for what is kept. */
  readonly unquoted?: string;
  /** What really happened, for the operator's log; never sent to a client. */
  readonly cause?: unknown;
}

/** The one error class. Thrown between steps; a step's expected refusals stay plain values. */
export class GatewayError extends Error {
  override readonly name = 'GatewayError';
  readonly symbol: ErrorSymbol;
  readonly status: ErrorStatus;
  readonly param: string | null;
  readonly retryAfterSeconds: number | null;
  readonly retryHelps: boolean;
  readonly isOverload: boolean;
  readonly unquoted: string;

  constructor(symbol: ErrorSymbol, message: string, details: ErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    const defaults = errorTable[symbol];
    this.symbol = symbol;
    this.status = details.status ?? defaults.status;
    this.param = details.param ?? null;
    this.retryAfterSeconds = details.retryAfterSeconds ?? null;
    this.retryHelps = details.retryHelps ?? defaults.retryHelps;
    this.isOverload = details.isOverload ?? false;
    this.unquoted = details.unquoted ?? message;
  }
}

/** A malformed request; `param` names the field. */
export function invalidRequest(
  message: string,
  param?: string,
  status?: ErrorStatus,
): GatewayError {
  return new GatewayError('invalid_request_error', message, definedFields({ param, status }));
}

/** A record, model or route that does not exist, or belongs to somebody else: the same answer. */
export function notFound(message: string, param?: string): GatewayError {
  return invalidRequest(message, param, 404);
}

/** What a request needs is away for now: SDKs ask again in a moment. */
export function unavailable(message: string, cause?: unknown): GatewayError {
  return new GatewayError('service_unavailable', message, { retryAfterSeconds: 2, cause });
}

/** For requests that come while the process stops, and for those it cannot wait for. */
export function shuttingDown(): GatewayError {
  const message = 'This Tollgate is shutting down; send the request again.';
  return new GatewayError('service_unavailable', message, { retryAfterSeconds: 1 });
}

/** Whatever was thrown, as the error a client may see. Unknown failures keep their cause to us. */
export function asGatewayError(error: unknown): GatewayError {
  if (error instanceof GatewayError) return error;
  return new GatewayError(
    'internal_error',
    'Tollgate failed to handle this request; the request id helps to find out why.',
    { cause: error },
  );
}

/** The code that a driver or the system gave a failure: `SQLITE_FULL`, `ECONNREFUSED`, `23505`. */
export function failureCode(error: unknown): string | undefined {
  if (!(error instanceof Error) || !('code' in error)) return undefined;
  return typeof error.code === 'string' ? error.code : undefined;
}

/** The message of a failure, whatever was thrown. */
export function failureMessage(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

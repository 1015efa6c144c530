import { definedFields } from './json.ts';

/**
 * One row of the error table. `imageType` is the type that image endpoints report, `blame` decides
 * whether a job is retried, and `retryHelps` becomes the `x-should-retry` header.
 */
const row = <Status extends number>(
  status: Status,
  imageType: string,
  blame: 'caller' | 'upstream' | 'gateway',
  retryHelps: boolean,
) => ({ status, imageType, blame, retryHelps });

/** All errors that Tollgate returns. Statuses are defined only here. */
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

/** Statuses that an error can have instead of its symbol's default. */
type ErrorStatus = DefaultStatus | 404 | 405 | 409 | 412 | 413 | 415 | 426 | 504;

interface ErrorDetails {
  readonly status?: ErrorStatus;
  /** Path of the invalid field, as clients write it: `messages[2].content[0].text`. */
  readonly param?: string;
  readonly retryAfterSeconds?: number;
  /** Overrides the table for this error. */
  readonly retryHelps?: boolean;
  /**
   * True if the providers are overloaded. Anthropic's clients expect a separate status for this.
   */
  readonly isOverload?: boolean;
  /** True if the providers' rate limits were exceeded, not a limit of the gateway. */
  readonly isProviderLimit?: boolean;
  /** The message without text from the request, for logs and the database. */
  readonly unquoted?: string;
  /** The underlying error, for the operator's log. Never sent to clients. */
  readonly cause?: unknown;
}

/** The only error class. Expected rejections inside one step are plain values instead. */
export class GatewayError extends Error {
  override readonly name = 'GatewayError';
  readonly symbol: ErrorSymbol;
  readonly status: ErrorStatus;
  readonly param: string | null;
  readonly retryAfterSeconds: number | null;
  readonly retryHelps: boolean;
  readonly isOverload: boolean;
  readonly isProviderLimit: boolean;
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
    this.isProviderLimit = details.isProviderLimit ?? false;
    this.unquoted = details.unquoted ?? message;
  }
}

/** Creates the error for an invalid request. `param` names the field. */
export function invalidRequest(
  message: string,
  param?: string,
  status?: ErrorStatus,
): GatewayError {
  return new GatewayError('invalid_request_error', message, definedFields({ param, status }));
}

/**
 * Creates the error for something that doesn't exist or belongs to another tenant. Both look alike.
 */
export function notFound(message: string, param?: string): GatewayError {
  return invalidRequest(message, param, 404);
}

/** Creates the error for a temporary outage. SDKs retry after 2 seconds. */
export function unavailable(message: string, cause?: unknown): GatewayError {
  return new GatewayError('service_unavailable', message, { retryAfterSeconds: 2, cause });
}

/** Creates the error for requests that arrive during shutdown or outlast it. */
export function shuttingDown(): GatewayError {
  const message = 'The gateway is shutting down. Send the request again.';
  return new GatewayError('service_unavailable', message, { retryAfterSeconds: 1 });
}

/** Converts any thrown value to an error for clients. Unknown errors become its hidden cause. */
export function asGatewayError(error: unknown): GatewayError {
  if (error instanceof GatewayError) return error;
  return new GatewayError(
    'internal_error',
    'Tollgate failed to handle this request. ' +
      'The operator can find the cause in the log, by the request ID.',
    { cause: error },
  );
}

/** Returns the error code of a driver or the OS: `SQLITE_FULL`, `ECONNREFUSED`, `23505`. */
export function failureCode(error: unknown): string | undefined {
  if (!(error instanceof Error) || !('code' in error)) return undefined;
  return typeof error.code === 'string' ? error.code : undefined;
}

/** Returns the message of any thrown value. */
export function failureMessage(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

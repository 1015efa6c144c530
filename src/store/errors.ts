import { failureCode, GatewayError, unavailable } from '../core/errors.ts';

/**
 * Returns the error for a database that can't be used. At startup, it stops the process; during a
 * request, the client gets 503.
 */
export function storeError(message: string, cause?: unknown): GatewayError {
  return new GatewayError('service_unavailable', message, { cause });
}

/**
 * Error codes of Postgres, its driver, SQLite, and object storage that mean an outage: a lost
 * connection, too many connections, a shutdown, a read-only server, a lock timeout, an idle or
 * rolled-back transaction, a full disk.
 */
const outageCodes: readonly RegExp[] = [
  /^(?:08...|40...|53...|55P03|57P0.|57014|25006|25P03)$/,
  /^SQLITE_(?:BUSY|FULL|IOERR|READONLY|CANTOPEN)/,
  /^(?:E(?:CONN|HOST|NET)\w+|ETIMEDOUT|EPIPE|EAI_AGAIN|ENOTFOUND|ERR_SOCKET_CLOSED)$/,
  /^(?:ENOSPC|EMFILE|ENFILE)$/,
];

/** Codes of a server that responds but rejects the login, for example after a password change. */
const loginRejectedCodes = /^(?:28...|3D000)$/;

/** Messages of outages that have no code, or only the code of a missing file. */
const outageMessages: readonly string[] = [
  'connect ENOENT',
  'Connection terminated',
  'timeout exceeded when trying to connect',
  'Query read timeout',
  'Client has encountered a connection error',
  'The SQLite thread',
  'The transaction was already rolled back',
];

/** Returns the error for clients during an outage, or undefined for any other error. */
export function toOutageError(error: unknown): GatewayError | undefined {
  if (!(error instanceof Error) || error instanceof GatewayError) return undefined;
  const code = failureCode(error) ?? '';
  const isOutage =
    outageCodes.some((pattern) => pattern.test(code)) ||
    isLoginRejected(error) ||
    outageMessages.some((start) => error.message.startsWith(start));
  return isOutage ? unavailable("The database can't be reached right now.", error) : undefined;
}

/**
 * Returns whether the server rejected the login. That counts as an outage while a gateway runs. At
 * startup, it means that the URL is wrong.
 */
export function isLoginRejected(error: unknown): boolean {
  return loginRejectedCodes.test(failureCode(error) ?? '');
}

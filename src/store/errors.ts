import { failureCode, GatewayError, unavailable } from '../core/errors.ts';

/** Why stored data cannot be used, in a sentence: a start ends with it, and a request with 503. */
export function storeError(message: string, cause?: unknown): GatewayError {
  return new GatewayError('service_unavailable', message, { cause });
}

/**
 * What Postgres, its driver, SQLite and object storages say when they cannot serve anybody now:
 * a lost connection, too many of them, a shutdown, a server that only reads, a table that stays
 * locked, a change that stood still for too long or was undone for another's sake, a full disk.
 */
const unreachableCodes: readonly RegExp[] = [
  /^(?:08...|40...|53...|55P03|57P0.|57014|25006|25P03)$/,
  /^SQLITE_(?:BUSY|FULL|IOERR|READONLY|CANTOPEN)/,
  /^(?:E(?:CONN|HOST|NET)\w+|ETIMEDOUT|EPIPE|EAI_AGAIN|ENOTFOUND|ERR_SOCKET_CLOSED)$/,
  /^(?:ENOSPC|EMFILE|ENFILE)$/,
];

/** The server is there but no longer lets us in: a changed password, a dropped database. */
const loginRefusedCodes = /^(?:28...|3D000)$/;

/** Failures for which the driver has no code, or only the code of a missing file. */
const unreachableMessages: readonly string[] = [
  'connect ENOENT',
  'Connection terminated',
  'timeout exceeded when trying to connect',
  'Query read timeout',
  'Client has encountered a connection error',
  'The SQLite thread',
  'The transaction was already rolled back',
];

/** The error that clients get while the store is away; undefined for any other failure. */
export function toUnreachableError(error: unknown): GatewayError | undefined {
  if (!(error instanceof Error) || error instanceof GatewayError) return undefined;
  const code = failureCode(error) ?? '';
  const isUnreachable =
    unreachableCodes.some((one) => one.test(code)) ||
    isLoginRefused(error) ||
    unreachableMessages.some((start) => error.message.startsWith(start));
  return isUnreachable ? unavailable('The store cannot be reached right now.', error) : undefined;
}

/** Counts as away while a gateway runs; at its start it means that the address is wrong. */
export function isLoginRefused(error: unknown): boolean {
  return loginRefusedCodes.test(failureCode(error) ?? '');
}

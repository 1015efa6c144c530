import { GatewayError, unavailable } from '../core/errors.ts';
import { failureCode } from '../core/failure-code.ts';

/**
 * What Postgres, its driver, SQLite and object storages say when they cannot serve anybody now:
 * a lost connection, too many of them, a shutdown, a server that only reads, a table that stays
 * locked, a change that stood still for too long or was undone for another's sake, a full disk.
 */
const awayCodes: readonly RegExp[] = [
  /^(?:08...|40...|53...|55P03|57P0.|57014|25006|25P03)$/,
  /^SQLITE_(?:BUSY|FULL|IOERR|READONLY|CANTOPEN)/,
  /^(?:E(?:CONN|HOST|NET)\w+|ETIMEDOUT|EPIPE|EAI_AGAIN|ENOTFOUND|ERR_SOCKET_CLOSED)$/,
  /^(?:ENOSPC|EMFILE|ENFILE)$/,
];

/** The server is there but no longer lets us in: a changed password, a dropped database. */
const refusals = /^(?:28...|3D000)$/;

/** Failures for which the driver has no code, or only the code of a missing file. */
const awayMessages: readonly string[] = [
  'connect ENOENT',
  'Connection terminated',
  'timeout exceeded when trying to connect',
  'Query read timeout',
  'Client has encountered a connection error',
  'The SQLite thread',
  'The transaction was already rolled back',
];

/** The error that clients get while the store is away; undefined for any other failure. */
export function storeAway(thrown: unknown): GatewayError | undefined {
  if (!(thrown instanceof Error) || thrown instanceof GatewayError) return undefined;
  const code = failureCode(thrown) ?? '';
  const isAway =
    awayCodes.some((one) => one.test(code)) ||
    isRefusal(thrown) ||
    awayMessages.some((start) => thrown.message.startsWith(start));
  return isAway ? unavailable('The store cannot be reached right now.', thrown) : undefined;
}

/** Counts as away while a gateway runs; at its start it means that the address is wrong. */
export function isRefusal(thrown: unknown): boolean {
  return refusals.test(failureCode(thrown) ?? '');
}

import pg from 'pg';
import type { GatewayError } from '../../core/errors.ts';
import { failureCode, failureMessage } from '../../core/failure-code.ts';
import { unusable } from '../unusable.ts';

export interface PostgresAddress {
  /** As the driver takes it. */
  readonly url: string;
  /** `host:port/database`: the password never appears in an error. */
  readonly target: string;
}

export function readAddress(text: string): PostgresAddress {
  const url = spellSslMode(text);
  try {
    const { host, port, database } = new pg.Client({ connectionString: url });
    return { url, target: `${host}:${port}/${database ?? ''}` };
  } catch (thrown) {
    // The driver's own message repeats the address, password and all.
    throw unusable(unreadable(thrown));
  }
}

function unreadable(thrown: unknown): string {
  const isFile = thrown instanceof Error && 'syscall' in thrown;
  if (isFile) return `A file that the database address names cannot be read: ${thrown.message}.`;
  return (
    'The database address is not a valid postgres:// URL; in its password, characters such as ' +
    '@ : / % # ? are written as %40 %3A %2F %25 %23 %3F.'
  );
}

/**
 * To the driver these modes mean `verify-full`, and it prints a page about that at every start. An
 * operator who wants their weaker meaning sets `uselibpqcompat=true`, or `no-verify`.
 */
function spellSslMode(url: string): string {
  if (/[?&]uselibpqcompat=true(&|$)/.test(url)) return url;
  return url.replace(/([?&]sslmode=)(?:prefer|require|verify-ca)(?=&|$)/, '$1verify-full');
}

const unknownAuthority =
  'its certificate is not signed by an authority known here: name that with ' +
  'sslrootcert=<file>, or accept any certificate with sslmode=no-verify';

const reasons: Record<string, string> = {
  ECONNREFUSED: 'connection refused',
  ECONNRESET: 'the connection was cut',
  ENOTFOUND: 'the host name is unknown',
  EAI_AGAIN: 'the host name cannot be looked up',
  ENOENT: 'there is no such socket',
  ETIMEDOUT: 'no answer',
  EHOSTUNREACH: 'the host cannot be reached',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: unknownAuthority,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: unknownAuthority,
  SELF_SIGNED_CERT_IN_CHAIN: unknownAuthority,
  DEPTH_ZERO_SELF_SIGNED_CERT: unknownAuthority,
  ERR_TLS_CERT_ALTNAME_INVALID: 'its certificate is for another name',
  CERT_HAS_EXPIRED: 'its certificate has expired',
  '28P01': 'user or password refused',
  '28000': 'the login was refused',
  '3D000': 'the database does not exist',
  '42501':
    'this user may not make tables there: grant it CREATE on the schema, or SELECT, INSERT, ' +
    'UPDATE and DELETE on all tables that another user has made',
  '3F000': 'the search_path of this user names no schema that there is',
  '53300': 'it has too many connections already',
  '57P03': 'it is starting up or shutting down',
};

/** The driver has no code for a missing password, and its message does not say what to do. */
const passwordless = 'it asks for a password, and neither the address nor PGPASSWORD has one';

/** A failure as one sentence, such as "Postgres at … cannot be reached: connection refused." */
export function refusal(target: string, what: string, thrown: unknown): GatewayError {
  const message = failureMessage(thrown);
  const isPasswordless = message.includes('client password must be a');
  const reason = isPasswordless ? passwordless : (reasons[failureCode(thrown) ?? ''] ?? message);
  return unusable(`Postgres at ${target} ${what}: ${reason}.`, thrown);
}

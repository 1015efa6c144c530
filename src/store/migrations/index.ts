import { directoryAndLedger } from './0001-directory-and-ledger.ts';
import { requestLog } from './0002-request-log.ts';
import { byokCredentials } from './0003-byok-credentials.ts';
import { idempotency } from './0004-idempotency.ts';
import { jobs } from './0005-jobs.ts';
import { skills } from './0006-skills.ts';
import { idempotencyBytes } from './0007-idempotency-bytes.ts';
import { logByKeyAndModel } from './0008-log-by-key-and-model.ts';
import { liveKeys } from './0009-live-keys.ts';
import type { Migration } from './migration.ts';

/** In order, without gaps. Modules, not files read at run time: they must fit in an executable. */
export const migrations: readonly Migration[] = [
  directoryAndLedger,
  requestLog,
  byokCredentials,
  idempotency,
  jobs,
  skills,
  idempotencyBytes,
  logByKeyAndModel,
  liveKeys,
];

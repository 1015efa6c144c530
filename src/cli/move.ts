import { strict as assert } from 'node:assert';
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Config } from '../config/config.ts';
import { environment } from '../config/environment.ts';
import { loadConfig } from '../config/load.ts';
import { ConfigProblems } from '../config/problems.ts';
import { journalRoot, readFolderName } from '../money/settle/journal-files.ts';
import { copyStore, type Rows } from '../store/copy-store.ts';
import type { ReadOnlyDatabase } from '../store/database.ts';
import { openReadOnly } from '../store/open.ts';
import type { Progress, Report } from '../store/verify/progress.ts';
import { type Verification, verifyLedger } from '../store/verify/verify.ts';
import { type Context, singleCommandTopic } from './command.ts';
import { progressReporter, verificationSummary } from './ledger.ts';
import { formatCount, printJson, table } from './output.ts';

export const move = singleCommandTopic('move', 'Copy all data from SQLite to Postgres', {
  summary: 'Copy all data from SQLite into an empty Postgres database; the file stays unchanged',
  options: {
    to: {
      value: '<url>',
      summary:
        'A postgres:// URL; omit it to enter the URL on stdin, so that its password stays hidden',
    },
  },
  run: moveAll,
});

async function moveAll(context: Context): Promise<void> {
  const { args, flags, now } = context;
  const config = loadConfig(flags, environment, ['data_dir', 'database']);
  const question = { text: 'URL of the new database', isSecret: true };
  const url = args.text('to') ?? (await context.input(question)).trim();
  if (!/^postgres(ql)?:\/\//.test(url)) {
    const problem = { path: '--to', message: 'must start with postgres:// or postgresql://.' };
    throw new ConfigProblems('command line', [problem]);
  }
  const source = await openSource(config);
  try {
    requireEmptyJournal(config);
    const rows = await copyStore({
      ...{ source, url, now: now() },
      onProgress: (name, copied, all) =>
        context.err(`${name}: ${copied.toLocaleString('en-US')} of ${formatCount(all, 'row')}`),
    });
    await reportMove(context, config, url, rows);
  } finally {
    await source.close();
  }
}

async function openSource({ database, dataDir }: Config): Promise<ReadOnlyDatabase> {
  if (!database.reveal().startsWith('sqlite:')) {
    throw new Error(
      'The database is already in Postgres. ' +
        'To move from a SQLite file, unset DATABASE_URL (database).',
    );
  }
  const source = await openReadOnly(database.reveal());
  if (source) return source;
  throw new Error(`There is no database in ${dataDir}. Set --data-dir to its folder.`);
}

/** Throws if there is a journal, because the charges in it would be missing from the copy. */
function requireEmptyJournal({ dataDir }: Config): void {
  const root = journalRoot(dataDir);
  const names = existsSync(root) ? readdirSync(root) : [];
  const [owner] = names.flatMap((name) => readFolderName(name) ?? []);
  if (!owner) return;
  throw new Error(
    `Process ${owner.pid} on ${owner.host} has a journal in ${root}. Stop that gateway. If it was ` +
      'killed, start a gateway there to book its last charges, then stop the new gateway.',
  );
}

async function reportMove(
  context: Context,
  config: Config,
  url: string,
  rows: Rows,
): Promise<void> {
  const { out, err, args } = context;
  const isJson = args.has('json');
  if (!isJson) out(table(['TABLE', 'ROWS'], [...rows]));
  const found = await verifyTarget(url, isJson ? err : out, progressReporter(context));
  if (isJson) {
    const ok = found.discrepancies === 0;
    printJson(context, { ok, tables: Object.fromEntries(rows), ...found });
  }
  if (found.discrepancies > 0) {
    err(
      'These discrepancies were already in the SQLite file: "tollgate ledger verify" reports the ' +
        'same ones for it.',
    );
  }
  const summary = verificationSummary(found);
  if (!isJson) out(`${summary}\n${nextSteps(config)}`);
}

async function verifyTarget(
  url: string,
  ...callbacks: [report: Report, onProgress: Progress]
): Promise<Verification> {
  const target = await openReadOnly(url);
  assert(target, 'A Postgres database either opens or throws.');
  try {
    return await verifyLedger(target, ...callbacks);
  } finally {
    await target.close();
  }
}

function nextSteps({ database, dataDir, secretKey }: Config): string {
  const file = database.reveal().slice('sqlite:'.length);
  const key = join(dataDir, 'secret.key');
  const keyStep = secretKey
    ? "Keep TOLLGATE_SECRET_KEY, because tenants' provider keys are encrypted with it."
    : `Keep ${key}, because tenants' provider keys are encrypted with it. For a gateway with ` +
      'another data directory, set TOLLGATE_SECRET_KEY to the content of this file.';
  return [
    `All data is now in Postgres; ${file} is unchanged. Next steps:`,
    '1. Set DATABASE_URL (database in the configuration) to the new URL.',
    `2. ${keyStep}`,
    "3. Start the gateway. Don't start a gateway on the file again.",
  ].join('\n');
}

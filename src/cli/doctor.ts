import type { Config } from '../config/config.ts';
import { listedModels } from '../config/config.ts';
import { environment } from '../config/environment.ts';
import type { Flags } from '../config/load.ts';
import { loadConfig } from '../config/load.ts';
import { ConfigProblems } from '../config/problems.ts';
import { type Context, singleCommandTopic } from './command.ts';
import { readConfigInStore } from './config-in-store.ts';
import {
  type Check,
  dataFolder,
  type Finding,
  healthy,
  runCheck,
  unhealthy,
} from './doctor/check.ts';
import { providerChecks, searchChecks } from './doctor/providers.ts';
import { serverChecks } from './doctor/redis-and-objects.ts';
import { ledgerChecks, StoreProbe, storeChecks } from './doctor/store.ts';
import { formatCount, printJson } from './output.ts';

export const doctor = singleCommandTopic('doctor', 'Find out what keeps a gateway from working', {
  summary: 'Check configuration, store, servers, and provider keys; exits with 1 if a check fails',
  options: {},
  run: runDoctor,
});

/** Runs all checks. They change nothing, so they can run while a gateway is running. */
async function runDoctor(context: Context): Promise<void> {
  const report = new Report(context);
  const file = readConfig(context.flags);
  if (file instanceof ConfigProblems) {
    report.add('configuration', unhealthy(file.message));
    return report.finish();
  }
  const store = new StoreProbe(file);
  try {
    const { config, finding } = await withStoredObjects(file, store);
    const groups = groupsFor(config, store);
    report.fitWidth(groups.flat());
    report.add('configuration', finding);
    for (const group of groups) {
      // The checks of a group run concurrently and are reported in order.
      const running = group.map((check) => ({ check, found: runCheck(check) }));
      for (const { check, found } of running) report.add(check.name, await found);
    }
  } finally {
    await store.close();
  }
  report.finish();
}

function groupsFor(config: Config, store: StoreProbe): readonly (readonly Check[])[] {
  const sequential = [
    dataFolder(config),
    ...storeChecks(config, store),
    ...serverChecks(config, store),
  ];
  return [
    ...sequential.map((check) => [check]),
    [...providerChecks(config), ...searchChecks(config)],
    ...ledgerChecks(config, store).map((check) => [check]),
  ];
}

function readConfig(flags: Flags): Config | ConfigProblems {
  try {
    return loadConfig(flags, environment);
  } catch (error) {
    if (error instanceof ConfigProblems) return error;
    throw error;
  }
}

/** Adds the objects of the store. If it can't be read, its own check says why. */
async function withStoredObjects(file: Config, store: StoreProbe) {
  const database = await store.ready();
  if (!database) return { config: file, finding: configFinding(file, 0) };
  const { config, objects, problems } = await readConfigInStore(file, database);
  if (problems.length === 0) return { config, finding: configFinding(config, objects) };
  const found = `Objects in the store don't fit, so they aren't used:\n${problems.join('\n')}`;
  return { config, finding: unhealthy(found) };
}

function configFinding(config: Config, objects: number): Finding {
  const live = listedModels(config).filter(({ isConfigured }) => isConfigured);
  const demo = config.demo ? ', and the demo' : '';
  const stored = objects > 0 ? ` and ${formatCount(objects, 'object')} in the store` : '';
  return healthy(
    `Settings from ${config.source}${stored}: ${formatCount(live.length, 'model')}${demo}.`,
  );
}

/** The maximum width of the name column. A longer name moves only the text on its own line. */
const nameWidthMax = 24;

/** Prints each finding as soon as it is known, or all of them at the end as JSON. */
class Report {
  readonly #context: Context;
  readonly #findings: ({ readonly name: string } & Finding)[] = [];
  #width = 'configuration'.length;

  constructor(context: Context) {
    this.#context = context;
  }

  fitWidth(checks: readonly Check[]): void {
    const longest = Math.max(...checks.map(({ name }) => name.length));
    this.#width = Math.max(this.#width, Math.min(longest, nameWidthMax));
  }

  add(name: string, found: Finding | undefined): void {
    if (!found) return;
    this.#findings.push({ name, ...found });
    if (!this.#context.args.has('json'))
      this.#context.out(formatLine(name.padEnd(this.#width), found));
  }

  /** Throws if a check failed, so that the exit code is 1. */
  finish(): void {
    const failed = this.#findings.filter(({ isHealthy }) => !isHealthy).length;
    const isJson = this.#context.args.has('json');
    if (isJson) {
      const data = this.#findings.map(({ name, isHealthy, found, fix }) => ({
        name,
        ok: isHealthy,
        found,
        fix,
      }));
      printJson(this.#context, { ok: failed === 0, data });
    }
    const all = formatCount(this.#findings.length, 'check');
    if (failed > 0) throw new Error(`${failed} of ${all} failed.`);
    if (!isJson) this.#context.out(`All ${all} passed.`);
  }
}

function formatLine(name: string, { isHealthy, found, fix }: Finding): string {
  const mark = isHealthy ? colored('✓', '32') : colored('✗', '31');
  // A finding can have several lines, such as one per configuration problem. Indent them.
  const text = (fix === null ? found : `${found} ${fix}`).replaceAll('\n', '\n  ');
  return `${mark} ${name}  ${text}`;
}

/** Colors a mark if the output is a terminal and the user hasn't turned colors off. */
function colored(mark: string, color: string): string {
  const useColor = process.stdout.isTTY && Bun.enableANSIColors;
  return useColor ? `\u001b[${color}m${mark}\u001b[0m` : mark;
}

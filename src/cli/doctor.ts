import type { Config } from '../config/config.ts';
import { environment } from '../config/environment.ts';
import { listedModels } from '../config/listed-models.ts';
import { loadConfig } from '../config/load.ts';
import type { Flags } from '../config/overrides.ts';
import { ConfigProblems } from '../config/problems.ts';
import { type Context, onlyCommand } from './command.ts';
import { bookChecks } from './doctor/books.ts';
import { type Check, type Finding, finding, unwell, well } from './doctor/check.ts';
import { dataFolder } from './doctor/folders.ts';
import { providerChecks, searchChecks } from './doctor/providers.ts';
import { serverChecks } from './doctor/servers.ts';
import { StoreLook, storeChecks } from './doctor/store.ts';
import { printJson } from './output.ts';
import { counted } from './table.ts';

export const doctor = onlyCommand('doctor', 'Find out what keeps a gateway from working', {
  summary: 'Check configuration, store, servers and provider keys; exits with 1 at a cross',
  options: {},
  run: examine,
});

/** Starts nothing and leaves no change behind, so it may run beside a gateway. */
async function examine(context: Context): Promise<void> {
  const report = new Report(context);
  const config = readConfig(context.flags);
  if (config instanceof ConfigProblems) {
    report.tell('configuration', unwell(config.message));
    return report.close();
  }
  const store = new StoreLook(config);
  try {
    const groups = groupsFor(config, store);
    report.widthOf(groups.flat());
    report.tell('configuration', configFinding(config));
    for (const group of groups) {
      // The checks of a group run at the same time and are reported in their order.
      const looks = group.map((check) => ({ check, found: finding(check) }));
      for (const { check, found } of looks) report.tell(check.name, await found);
    }
  } finally {
    await store.close();
  }
  report.close();
}

function groupsFor(config: Config, store: StoreLook): readonly (readonly Check[])[] {
  const oneByOne = [
    dataFolder(config),
    ...storeChecks(config, store),
    ...serverChecks(config, store),
  ];
  return [
    ...oneByOne.map((check) => [check]),
    [...providerChecks(config), ...searchChecks(config)],
    ...bookChecks(config, store).map((check) => [check]),
  ];
}

function readConfig(flags: Flags): Config | ConfigProblems {
  try {
    return loadConfig(flags, environment);
  } catch (thrown) {
    if (thrown instanceof ConfigProblems) return thrown;
    throw thrown;
  }
}

function configFinding(config: Config): Finding {
  const live = listedModels(config).filter(({ isLive }) => isLive);
  const demo = config.demo ? ', and the demo' : '';
  return well(`Settings from ${config.source}: ${counted(live.length, 'model')}${demo}.`);
}

/** The widest that the column of names gets; a longer name shifts only its own line. */
const nameWidthMax = 24;

/** Prints each line as soon as it is known, or at the end all of them as JSON. */
class Report {
  readonly #context: Context;
  readonly #told: ({ readonly name: string } & Finding)[] = [];
  #width = 'configuration'.length;

  constructor(context: Context) {
    this.#context = context;
  }

  widthOf(checks: readonly Check[]): void {
    const longest = Math.max(...checks.map(({ name }) => name.length));
    this.#width = Math.max(this.#width, Math.min(longest, nameWidthMax));
  }

  tell(name: string, found: Finding | undefined): void {
    if (!found) return;
    this.#told.push({ name, ...found });
    if (!this.#context.args.has('json')) this.#context.out(line(name.padEnd(this.#width), found));
  }

  /** Throws if any check failed, so that the exit code says so. */
  close(): void {
    const crosses = this.#told.filter(({ isWell }) => !isWell).length;
    const isJson = this.#context.args.has('json');
    if (isJson) {
      const data = this.#told.map(({ name, isWell, found, fix }) => ({
        name,
        ok: isWell,
        found,
        fix,
      }));
      printJson(this.#context, { ok: crosses === 0, data });
    }
    const all = counted(this.#told.length, 'check');
    if (crosses > 0) throw new Error(`${crosses} of ${all} found something wrong.`);
    if (!isJson) this.#context.out(`All is well: ${all}.`);
  }
}

function line(name: string, { isWell, found, fix }: Finding): string {
  const mark = isWell ? coloured('✓', '32') : coloured('✗', '31');
  // Configuration problems come one to a line; these lines are indented.
  const text = (fix === null ? found : `${found} ${fix}`).replaceAll('\n', '\n  ');
  return `${mark} ${name}  ${text}`;
}

/** The runtime also knows whether the user turned colours off. */
function coloured(mark: string, colour: string): string {
  const isWanted = process.stdout.isTTY && Bun.enableANSIColors;
  return isWanted ? `\u001b[${colour}m${mark}\u001b[0m` : mark;
}

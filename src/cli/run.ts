import type { Flags } from '../config/overrides.ts';
import { ConfigProblems } from '../config/problems.ts';
import { GatewayError } from '../core/errors.ts';
import { failureCode } from '../core/failure-code.ts';
import { didYouMean } from '../core/nearest.ts';
import { type Args, type Command, type Context, readArgs, type Topic } from './command.ts';
import { commandHelp, overviewHelp, topicHelp } from './help.ts';

/** What the commands need of the process around them. */
export interface World extends Pick<Context, 'out' | 'write' | 'err' | 'input' | 'now'> {
  readonly version: string;
  /** Resolves when all that was printed has been taken; rejects when some of it could not be. */
  flush(): Promise<void>;
  openStore(flags: Flags, mustExist: boolean): Promise<OpenStore>;
  loadModels(flags: Flags): ReturnType<Context['models']>;
}

type Desk = Awaited<ReturnType<Context['desk']>>;
export type OpenStore = Omit<Desk, 'now'> & { close(): Promise<void> };

/** Runs one command line and answers the exit code: 0 done, 1 refused or failed, 2 misused. */
export async function runCommand(
  words: readonly string[],
  topics: readonly Topic[],
  world: World,
): Promise<number> {
  // The short form is the one people try first.
  const [first = 'help', ...rest] = words.map((word) => (word === '-h' ? '--help' : word));
  if (first === '--version') {
    world.out(world.version);
    return 0;
  }
  const isHelp = first === 'help' || first === '--help';
  const wanted = isHelp ? rest[0] : first;
  if (wanted === undefined) {
    world.out(overviewHelp(topics));
    return 0;
  }
  const topic = topics.find(({ name }) => name === wanted);
  if (!topic) return misused(world, unknownWord(wanted, topics), 'tollgate --help');
  return runTopic(topic, isHelp ? ['help', ...rest.slice(1)] : rest, world);
}

function runTopic(topic: Topic, words: readonly string[], world: World): number | Promise<number> {
  const [first, ...others] = words;
  const isHelp = first === 'help' || first === '--help';
  const [only] = topic.commands;
  if (only?.name === '') return runOne(topic, only, isHelp ? ['--help'] : words, world);
  if (isHelp && others.length === 0) {
    world.out(topicHelp(topic));
    return 0;
  }
  // `keys help create` is `keys create --help`.
  const [name, ...rest] = isHelp ? [...others, '--help'] : words;
  const page = `tollgate ${topic.name} --help`;
  if (name === undefined) {
    const known = topic.commands.map((command) => command.name).join(', ');
    return misused(world, `What about the ${topic.name}? Add one of: ${known}.`, page);
  }
  const command = topic.commands.find((one) => one.name === name);
  if (!command) return misused(world, unknownWord(name, topic.commands), page);
  return runOne(topic, command, rest, world);
}

async function runOne(
  topic: Topic,
  command: Command,
  words: readonly string[],
  world: World,
): Promise<number> {
  const reading = readArgs(command, words);
  if (reading.kind === 'wrong') {
    const path = ['tollgate', topic.name, command.name].filter((word) => word !== '').join(' ');
    return misused(world, reading.message, `${path} --help`);
  }
  const { args } = reading;
  if (args.has('help')) {
    world.out(commandHelp(topic, command));
    return 0;
  }
  const [config, dataDir] = [args.text('config'), args.text('data-dir')];
  const flags: Flags = {
    ...(config === undefined ? {} : { config }),
    ...(dataDir === undefined ? {} : { dataDir }),
  };
  let store: OpenStore | undefined;
  try {
    await command.run({
      ...world,
      args,
      flags,
      models: () => world.loadModels(flags),
      async desk() {
        store ??= await world.openStore(flags, !command.beginsStore);
        return { ...store, now: world.now };
      },
    });
    await world.flush();
    return 0;
  } catch (thrown) {
    // A reader that closes the pipe, as `head` does, has what it wanted.
    if (failureCode(thrown) === 'EPIPE') return 0;
    const message = thrown instanceof Error ? thrown.message : String(thrown);
    world.err(message + (isAbsent(thrown) ? tenantHint(command, args) : ''));
    return thrown instanceof ConfigProblems ? 2 : 1;
  } finally {
    await store?.close();
  }
}

/** A tenant, or something that one of them has; not a field's value. */
function isAbsent(thrown: unknown): boolean {
  return thrown instanceof GatewayError && thrown.status === 404 && thrown.param === null;
}

/** Whoever named no tenant may have meant another than the first. */
function tenantHint({ options }: Command, args: Args): string {
  if (!Object.hasOwn(options, 'tenant') || args.has('tenant')) return '';
  return ' The tenant is "default" unless --tenant names another.';
}

function unknownWord(word: string, known: readonly { readonly name: string }[]): string {
  const names = known.map(({ name }) => name);
  return `There is no command "${word}"${didYouMean(word, names) || '.'}`;
}

function misused(world: World, message: string, help: string): number {
  world.err(`${message} See "${help}".`);
  return 2;
}

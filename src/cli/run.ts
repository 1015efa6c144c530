import type { Flags } from '../config/overrides.ts';
import { ConfigProblems } from '../config/problems.ts';
import { GatewayError } from '../core/errors.ts';
import { failureCode, failureMessage } from '../core/failure-code.ts';
import { given } from '../core/given.ts';
import { didYouMean } from '../core/nearest.ts';
import {
  type Args,
  type Command,
  type Context,
  type Desk,
  readArgs,
  type Topic,
} from './command.ts';
import { commandHelp, overviewHelp, topicHelp } from './help.ts';

/** What the commands need of the process around them. */
export interface World extends Pick<Context, 'out' | 'write' | 'err' | 'input' | 'now'> {
  readonly version: string;
  /** Resolves when all output has been written; rejects if some of it could not be. */
  flush(): Promise<void>;
  openStore(flags: Flags, mustExist: boolean): Promise<OpenStore>;
  loadModels(flags: Flags): ReturnType<Context['models']>;
}

type OpenStore = Desk & { close(): Promise<void> };

/** All the spellings by which programs are usually asked for their version. */
const versionWords = new Set(['version', '--version', '-v', '-V']);

/** What other programs call the same command. */
const otherNames: ReadonlyMap<string, string> = new Map([
  ['start', 'serve'],
  ['run', 'serve'],
  ['up', 'serve'],
  ['status', 'health'],
]);

/** If one of these were empty, the command would silently use the default. */
const settings = ['config', 'data-dir', 'host', 'port'];

/** Runs one command line and answers the exit code: 0 done, 1 refused or failed, 2 misused. */
export async function runCommand(
  words: readonly string[],
  topics: readonly Topic[],
  world: World,
): Promise<number> {
  // People try `-h` first.
  const [first = 'help', ...rest] = words.map((word) => (word === '-h' ? '--help' : word));
  if (versionWords.has(first)) {
    world.out(world.version);
    return 0;
  }
  const isHelp = first === 'help' || first === '--help';
  const wanted = isHelp ? rest[0] : first;
  if (wanted === undefined || wanted === 'help') {
    world.out(overviewHelp(topics));
    return 0;
  }
  const topic = topics.find(({ name }) => name === wanted);
  if (!topic) return misused(world, unknownTopic(wanted, topics), 'tollgate --help');
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
    const message = `"tollgate ${topic.name}" needs one more word: ${known}.`;
    return misused(world, message, page);
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
  const path = ['tollgate', topic.name, command.name].filter((word) => word !== '').join(' ');
  const reading = readArgs(command, words);
  if (reading.kind === 'wrong') return misused(world, reading.message, `${path} --help`);
  const { args } = reading;
  if (args.has('help')) {
    world.out(commandHelp(topic, command));
    return 0;
  }
  // As a script with an unset variable does it: `--data-dir "$DATA"`.
  const empty = settings.find((name) => args.text(name) === '');
  if (empty !== undefined) return misused(world, `--${empty} is empty.`, `${path} --help`);
  const flags: Flags = given({ config: args.text('config'), dataDir: args.text('data-dir') });
  let store: OpenStore | undefined;
  try {
    await command.run({
      ...world,
      args,
      flags,
      models: () => world.loadModels(flags),
      async desk() {
        store ??= await world.openStore(flags, !command.beginsStore);
        return store;
      },
    });
    await world.flush();
    return 0;
  } catch (thrown) {
    // A reader that closes the pipe, as `head` does, has all that it wanted: this is no failure.
    if (failureCode(thrown) === 'EPIPE') return 0;
    world.err(failureMessage(thrown) + (isAbsent(thrown) ? tenantHint(command, args) : ''));
    return thrown instanceof ConfigProblems ? 2 : 1;
  } finally {
    await store?.close();
  }
}

/** A tenant or a thing of a tenant does not exist; a wrong value of a field has a `param`. */
function isAbsent(thrown: unknown): boolean {
  return thrown instanceof GatewayError && thrown.status === 404 && thrown.param === null;
}

/** Without `--tenant` the first tenant is used; the person may have meant another. */
function tenantHint({ options }: Command, args: Args): string {
  if (!Object.hasOwn(options, 'tenant') || args.has('tenant')) return '';
  return ' The tenant is "default" unless --tenant names another.';
}

function unknownTopic(word: string, topics: readonly Topic[]): string {
  if (word.startsWith('-')) return 'The command comes first: tollgate <command> [options].';
  const other = otherNames.get(word);
  if (other !== undefined) return `There is no command "${word}"; did you mean "${other}"?`;
  return unknownWord(word, topics);
}

function unknownWord(word: string, known: readonly { readonly name: string }[]): string {
  const names = known.map(({ name }) => name);
  return `There is no command "${word}"${didYouMean(word, names) || '.'}`;
}

function misused(world: World, message: string, help: string): number {
  world.err(`${message} See "${help}".`);
  return 2;
}

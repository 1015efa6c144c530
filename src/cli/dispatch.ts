import { userInfo } from 'node:os';
import type { Flags } from '../config/load.ts';
import { ConfigProblems } from '../config/problems.ts';
import { type Actor, runAs } from '../core/actor.ts';
import { failureCode, failureMessage, GatewayError } from '../core/errors.ts';
import { definedFields } from '../core/json.ts';
import { didYouMean } from '../core/text.ts';
import {
  type Args,
  type Command,
  type CommandServices,
  type Context,
  commonOptions,
  type Option,
  readArgs,
  type Topic,
} from './command.ts';

/** What commands need from the process, such as its streams, clock, and store. */
export interface CommandEnvironment
  extends Pick<Context, 'out' | 'write' | 'err' | 'input' | 'now'> {
  readonly version: string;
  /** Resolves when all output is written. Rejects if any write failed. */
  flush(): Promise<void>;
  openStore(flags: Flags, mustExist: boolean): Promise<OpenStore>;
  loadModels(flags: Flags): ReturnType<Context['models']>;
}

type OpenStore = CommandServices & { close(): Promise<void> };

/** The arguments with which programs usually print their version. */
const versionArgs = new Set(['version', '--version', '-v', '-V']);

/** Names that other programs use for the same command. They are only suggested. */
const commandAliases: ReadonlyMap<string, string> = new Map([
  ['start', 'serve'],
  ['run', 'serve'],
  ['up', 'serve'],
  ['status', 'health'],
]);

/** Options that must not be empty. Otherwise, the command would silently use the default. */
const nonEmptyOptions = ['config', 'data-dir', 'host', 'port'];

/**
 * Runs a command. Returns the exit code: 0 for success, 1 for a failure, 2 for a usage error. Some
 * commands have another one for a result that scripts want to recognize.
 */
export async function runCommand(
  argv: readonly string[],
  topics: readonly Topic[],
  environment: CommandEnvironment,
): Promise<number> {
  // Most programs accept `-h` for help.
  const [first = 'help', ...rest] = argv.map((word) => (word === '-h' ? '--help' : word));
  if (versionArgs.has(first)) {
    environment.out(environment.version);
    return 0;
  }
  const isHelp = first === 'help' || first === '--help';
  const topicName = isHelp ? rest[0] : first;
  if (topicName === undefined || topicName === 'help') {
    environment.out(overviewHelp(topics));
    return 0;
  }
  const topic = topics.find(({ name }) => name === topicName);
  if (!topic) return usageError(environment, unknownTopic(topicName, topics), 'tollgate --help');
  return runTopic(topic, isHelp ? ['help', ...rest.slice(1)] : rest, environment);
}

function runTopic(
  topic: Topic,
  argv: readonly string[],
  environment: CommandEnvironment,
): number | Promise<number> {
  const [first, ...others] = argv;
  const isHelp = first === 'help' || first === '--help';
  const [only, ...more] = topic.commands;
  // A topic can be a command itself and have others, such as `models` and `models set`.
  const isNamed = more.some(({ name }) => name === (isHelp ? others[0] : first));
  if (only?.name === '' && !isNamed)
    return runOne(topic, only, isHelp ? ['--help'] : argv, environment);
  if (isHelp && others.length === 0) {
    environment.out(topicHelp(topic));
    return 0;
  }
  // `keys help create` is `keys create --help`.
  const [name, ...rest] = isHelp ? [...others, '--help'] : argv;
  const page = `tollgate ${topic.name} --help`;
  if (name === undefined) {
    const known = topic.commands.map((command) => command.name).join(', ');
    const message = `"tollgate ${topic.name}" needs a subcommand: ${known}.`;
    return usageError(environment, message, page);
  }
  const command = topic.commands.find((one) => one.name === name);
  if (!command) return usageError(environment, unknownCommand(name, topic.commands), page);
  return runOne(topic, command, rest, environment);
}

async function runOne(
  topic: Topic,
  command: Command,
  argv: readonly string[],
  environment: CommandEnvironment,
): Promise<number> {
  const path = ['tollgate', topic.name, command.name].filter((word) => word !== '').join(' ');
  const parsed = readArgs(command, argv);
  if (parsed.kind === 'invalid') return usageError(environment, parsed.message, `${path} --help`);
  const { args } = parsed;
  if (args.has('help')) {
    environment.out(commandHelp(topic, command));
    return 0;
  }
  // A script with an unset variable passes an empty value: `--data-dir "$DATA"`.
  const empty = nonEmptyOptions.find((name) => args.text(name) === '');
  if (empty !== undefined) return usageError(environment, `--${empty} is empty.`, `${path} --help`);
  const flags: Flags = definedFields({
    config: args.text('config'),
    dataDir: args.text('data-dir'),
  });
  let store: OpenStore | undefined;
  let exitCode = 0;
  try {
    const context: Context = {
      ...environment,
      args,
      flags,
      exitWith: (code) => {
        exitCode = code;
      },
      models: () => environment.loadModels(flags),
      async services() {
        store ??= await environment.openStore(flags, !command.createsStore);
        return store;
      },
    };
    const actor: Actor = { name: userName(), origin: 'cli', address: null, requestId: null };
    await runAs(actor, () => command.run(context));
    await environment.flush();
    return exitCode;
  } catch (error) {
    // A program such as `head` closes the pipe once it has read enough, which isn't a failure.
    if (failureCode(error) === 'EPIPE') return 0;
    environment.err(failureMessage(error) + (isNotFound(error) ? tenantHint(command, args) : ''));
    return error instanceof ConfigProblems ? 2 : 1;
  } finally {
    await store?.close();
  }
}

/** Returns who runs the command, for the audit log. */
function userName(): string {
  try {
    return userInfo().username;
  } catch {
    // In a container, the user may have no name.
    return `uid ${process.getuid?.() ?? 'unknown'}`;
  }
}

/** Recognizes a missing tenant or resource. A 404 about a field's value has a `param`. */
function isNotFound(error: unknown): boolean {
  return error instanceof GatewayError && error.status === 404 && error.param === null;
}

/** If --tenant isn't set, returns a hint to append, because the default may be the wrong tenant. */
function tenantHint({ options }: Command, args: Args): string {
  if (!Object.hasOwn(options, 'tenant') || args.has('tenant')) return '';
  return ' Only the tenant "default" was searched. Set --tenant to search another.';
}

function unknownTopic(word: string, topics: readonly Topic[]): string {
  if (word.startsWith('-'))
    return 'Put the command before its options: tollgate <command> [options].';
  const other = commandAliases.get(word);
  if (other !== undefined) return `There is no command "${word}"; did you mean "${other}"?`;
  return unknownCommand(word, topics);
}

function unknownCommand(word: string, known: readonly { readonly name: string }[]): string {
  const names = known.map(({ name }) => name);
  return `There is no command "${word}"${didYouMean(word, names) || '.'}`;
}

function usageError(environment: CommandEnvironment, message: string, help: string): number {
  environment.err(`${message} See "${help}".`);
  return 2;
}

// The help pages for all topics, for one topic, and for one command.

export function overviewHelp(topics: readonly Topic[]): string {
  return [
    'Tollgate: one endpoint in front of every model provider, billed in credits.',
    '',
    'Usage: tollgate <command> [options]',
    '',
    'Commands:',
    ...columns(topics.map(({ name, summary }) => [name, summary])),
    '',
    'Run "tollgate <command> --help" for more about a command.',
    'Run "tollgate version" for the version.',
  ].join('\n');
}

export function topicHelp(topic: Topic): string {
  return [
    `${topic.summary}.`,
    '',
    `Usage: tollgate ${topic.name} <command> [options]`,
    '',
    'Commands:',
    ...columns(topic.commands.map((command) => [synopsis(command), command.summary])),
    ...examples(topic),
    '',
    `Run "tollgate ${topic.name} <command> --help" for the options of a command.`,
  ].join('\n');
}

export function commandHelp(topic: Topic, command: Command): string {
  const usage = ['tollgate', topic.name, synopsis(command)].filter((word) => word !== '');
  return [
    `${command.summary}.`,
    '',
    `Usage: ${usage.join(' ')} [options]`,
    '',
    'Options:',
    ...columns(optionRows({ ...command.options, ...commonOptions })),
    ...(command.name === '' ? otherCommands(topic) : []),
  ].join('\n');
}

/** Lists the commands of a topic that is also a command itself. */
function otherCommands({ commands }: Topic): string[] {
  const named = commands.filter(({ name }) => name !== '');
  if (named.length === 0) return [];
  return [
    '',
    'Commands:',
    ...columns(named.map((command) => [synopsis(command), command.summary])),
  ];
}

function synopsis({ name, positional = '' }: Command): string {
  return `${name} ${positional}`.trim();
}

function optionRows(options: Readonly<Record<string, Option>>): [string, string][] {
  const shown = Object.entries(options).filter(([, { isInternal }]) => !isInternal);
  return shown.map(([name, { value = '', summary, required }]) => [
    `--${name} ${value}`.trim(),
    required ? `${summary} (required)` : summary,
  ]);
}

function examples({ examples: lines = [] }: Topic): string[] {
  return lines.length === 0 ? [] : ['', 'Examples:', ...lines.map((line) => `  ${line}`)];
}

function columns(rows: readonly (readonly [string, string])[]): string[] {
  const width = Math.max(...rows.map(([left]) => left.length));
  return rows.map(([left, right]) => `  ${left.padEnd(width)}  ${right}`);
}

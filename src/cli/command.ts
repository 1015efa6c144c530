import { parseArgs } from 'node:util';
import type { ByokService } from '../auth/management/byok.ts';
import type { CreditService } from '../auth/management/credits.ts';
import type { KeyService } from '../auth/management/keys.ts';
import { showTenant } from '../auth/management/tenants.ts';
import type { SecretRotation } from '../auth/secret-rotation.ts';
import type { ListedModel } from '../config/config.ts';
import type { Flags } from '../config/load.ts';
import { invalidRequest } from '../core/errors.ts';
import { nearest } from '../core/text.ts';
import type { AllTenantsLog } from '../records/request-log.ts';
import type { StatementReads } from '../records/statement.ts';
import type { Progress, Report, Verification } from '../store/verify/verify.ts';
import type { SkillService } from '../tools/skills/skill-service.ts';
import type { Question } from './input.ts';

/** What a command is, what it gets, and how its words on the command line are read. */

export interface Option {
  /**
   * What the help shows for the option's value: `<credits>`. Without it, the option takes no value.
   */
  readonly value?: string;
  readonly summary: string;
  readonly required?: boolean;
  /** For processes that Tollgate starts itself: neither shown in the help nor suggested. */
  readonly isInternal?: true;
}

export interface Command {
  /** The second word; empty when the topic itself is the command. */
  readonly name: string;
  readonly summary: string;
  /** The one value without a name, such as `<key id>`; `[client]` may be left out. */
  readonly operand?: string;
  readonly options: Readonly<Record<string, Option>>;
  /** At least one of these options must be given: without any, the command would change nothing. */
  readonly changes?: readonly string[];
  /** May create the store; for all other commands, a store that does not exist is an error. */
  readonly createsStore?: true;
  run(context: Context): Promise<void>;
}

/** The first word: `tollgate keys …`. */
export interface Topic {
  readonly name: string;
  readonly summary: string;
  readonly commands: readonly Command[];
  readonly examples?: readonly string[];
}

/** A topic that is itself the command; `inList` is its summary in the list of all topics. */
export function singleCommandTopic(
  name: string,
  listSummary: string,
  command: Omit<Command, 'name'>,
): Topic {
  return { name, summary: listSummary, commands: [{ name: '', ...command }] };
}

/** Everything in the store that commands use. */
export interface CommandServices extends KeyService, CreditService, ByokService {
  readonly directory: KeyService['directory'] & CreditService['directory'];
  readonly skills: SkillService;
  /** Requests of all tenants. */
  readonly requests: AllTenantsLog;
  readonly statements: StatementReads;
  verify(report: Report, onProgress: Progress): Promise<Verification>;
  /** Re-encrypts credentials with the operator's secret key, which is read on the first call. */
  rotation(): SecretRotation;
}

export interface Context {
  readonly args: Args;
  /** Settings that every command takes: which configuration, which data. */
  readonly flags: Flags;
  /** Opens the store on first use; it is closed when the command has ended. */
  services(): Promise<CommandServices>;
  models(): Promise<readonly ListedModel[]>;
  /** Prints one or more lines on standard output and adds the last line break. */
  out(text: string): void;
  /** Prints a piece of a long output unchanged; resolves when the reader has taken it. */
  write(piece: string): Promise<void>;
  err(text: string): void;
  /** All of standard input: where secrets come from, so that no shell history keeps them. */
  input(question: Question): Promise<string>;
  now(): number;
}

export const commonOptions: Readonly<Record<string, Option>> = {
  json: { summary: 'Print JSON, as the HTTP interface would' },
  config: { value: '<file>', summary: 'Configuration file' },
  'data-dir': { value: '<folder>', summary: 'Where the embedded data lives' },
  help: { summary: 'Show this help' },
};

/** The words behind a command, checked against its options. */
export class Args {
  readonly operand: string;
  readonly #values: ReadonlyMap<string, string>;

  constructor(operand: string, values: ReadonlyMap<string, string>) {
    this.operand = operand;
    this.#values = values;
  }

  has(name: string): boolean {
    return this.#values.has(name);
  }

  text(name: string): string | undefined {
    return this.#values.get(name);
  }

  /** The option's text as a number; any other text is left for the field's own check to refuse. */
  number(name: string): number | string | undefined {
    const text = this.text(name);
    return text !== undefined && /^-?\d+$/.test(text) ? Number(text) : text;
  }

  /** `a,b` as a list. */
  list(name: string): string[] | undefined {
    return this.text(name)
      ?.split(',')
      .map((item) => item.trim());
  }
}

type ParsedArgs =
  | { readonly kind: 'args'; readonly args: Args }
  | { readonly kind: 'wrong'; readonly message: string };

export function readArgs(command: Command, argv: readonly string[]): ParsedArgs {
  const options = { ...commonOptions, ...command.options };
  // Strict parsing would refuse `--amount -5` as ambiguous, with error messages that are not ours.
  const { tokens } = parseArgs({
    args: [...argv],
    options: Object.fromEntries(
      Object.entries(options).map(([name, option]) => [
        name,
        { type: option.value === undefined ? 'boolean' : 'string' },
      ]),
    ),
    strict: false,
    allowPositionals: true,
    tokens: true,
  });
  const values = new Map<string, string>();
  const operands: string[] = [];
  for (const token of tokens) {
    if (token.kind === 'positional') operands.push(token.value);
    if (token.kind !== 'option') continue;
    const { name, rawName, value, inlineValue } = token;
    const option = Object.hasOwn(options, name) ? options[name] : undefined;
    if (!option) return invalid(unknownOption(rawName, options));
    if (values.has(name)) return invalid(`${rawName} is given twice.`);
    if (option.value === undefined) {
      if (value !== undefined) return invalid(`${rawName} takes no value.`);
    } else if (value === undefined || (!inlineValue && value.startsWith('--'))) {
      return invalid(`${rawName} needs a value: ${rawName} ${option.value}.`);
    }
    values.set(name, value ?? '');
  }
  const args = new Args(operands[0] ?? '', values);
  return args.has('help') ? { kind: 'args', args } : checkComplete(command, args, operands);
}

function checkComplete(command: Command, args: Args, operands: readonly string[]): ParsedArgs {
  const { operand, options, changes } = command;
  const surplus = operands[operand === undefined ? 0 : 1];
  if (surplus !== undefined) return invalid(`"${surplus}" is one word too many.`);
  if (operand?.startsWith('<') && args.operand === '') return invalid(`${operand} is missing.`);
  const missing = Object.keys(options).find((name) => options[name]?.required && !args.has(name));
  if (missing !== undefined) {
    return invalid(`--${missing} ${options[missing]?.value ?? ''} is missing.`);
  }
  if (changes && !changes.some((name) => args.has(name))) {
    return invalid(`Name what to change: ${changes.map((name) => `--${name}`).join(', ')}.`);
  }
  return { kind: 'args', args };
}

function unknownOption(rawName: string, options: Readonly<Record<string, Option>>): string {
  const known = Object.keys(options).filter((name) => !options[name]?.isInternal);
  const close = nearest(rawName.replace(/^-+/, ''), known);
  return `There is no option ${rawName}${close ? `; did you mean --${close}?` : '.'}`;
}

function invalid(message: string): ParsedArgs {
  return { kind: 'wrong', message };
}

/** Options that several commands take: which tenant, and where in a list to begin. */

export const tenantOption = {
  tenant: { value: '<id>', summary: 'Which tenant (default: "default")' },
} as const;

export const offsetOption: Readonly<Record<string, Option>> = {
  offset: { value: '<n>', summary: 'Leave out the first n' },
};

/** The tenant that the first start makes, unless another one is named. */
export function tenantOf(args: Args): string {
  return args.text('tenant') ?? 'default';
}

/** An unknown tenant is refused before anything happens. */
export async function servicesForTenant({ args, services }: Context) {
  const opened = await services();
  const { id } = await showTenant(opened, tenantOf(args));
  return { services: opened, tenantId: id };
}

export function offsetOf(args: Args): number {
  const offset = args.number('offset') ?? 0;
  if (typeof offset === 'number' && Number.isSafeInteger(offset) && offset >= 0) return offset;
  throw invalidRequest('offset must be a whole number of at least 0.', 'offset');
}

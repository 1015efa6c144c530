import { parseArgs } from 'node:util';
import type { ByokService } from '../auth/management/byok.ts';
import type { CreditService } from '../auth/management/credits.ts';
import type { KeyService } from '../auth/management/keys.ts';
import { showTenant } from '../auth/management/tenants.ts';
import type { SecretRotation } from '../auth/secret-rotation.ts';
import type { Config, ListedModel } from '../config/config.ts';
import type { Flags } from '../config/load.ts';
import type { AuditReads } from '../control/audit.ts';
import type { ConfigServiceDeps } from '../control/config-service.ts';
import { invalidRequest } from '../core/errors.ts';
import { nearest } from '../core/text.ts';
import type { AllTenantsLog } from '../records/customer-log.ts';
import type { RunningRequestStore } from '../records/running-requests.ts';
import type { StatementReads } from '../records/statement.ts';
import type { Progress, Report } from '../store/verify/progress.ts';
import type { Verification } from '../store/verify/verify.ts';
import type { SkillService } from '../tools/skills/skill-service.ts';
import type { GuardedResult } from '../upstream/guard/guarded-fetch.ts';
import type { ProviderTestResult, testProvider } from '../upstream/provider-test.ts';
import type { InputPrompt } from './input.ts';

// The types of commands, and the parser of their arguments.

export interface Option {
  /** The placeholder in the help, such as `<credits>`. Undefined for a flag without a value. */
  readonly value?: string;
  readonly summary: string;
  readonly required?: boolean;
  /** Set by Tollgate for processes that it starts. Hidden from the help and from suggestions. */
  readonly isInternal?: true;
}

export interface Command {
  /** The subcommand, or '' if the topic itself is the command. */
  readonly name: string;
  readonly summary: string;
  /** The positional argument: `<key id>` is required, `[client]` is optional. */
  readonly positional?: string;
  readonly options: Readonly<Record<string, Option>>;
  /** At least one of these options is required, because without them nothing would change. */
  readonly requiresOneOf?: readonly string[];
  /** Creates the store if it doesn't exist. All other commands fail without a store. */
  readonly createsStore?: true;
  run(context: Context): Promise<void>;
}

/** A group of commands, such as `tollgate keys …`. */
export interface Topic {
  readonly name: string;
  readonly summary: string;
  readonly commands: readonly Command[];
  readonly examples?: readonly string[];
}

/** Creates a topic that is itself a command. `listSummary` describes it in the overview. */
export function singleCommandTopic(
  name: string,
  listSummary: string,
  command: Omit<Command, 'name'>,
): Topic {
  return { name, summary: listSummary, commands: [{ name: '', ...command }] };
}

/** The services that commands use. All of them share one open store. */
export interface CommandServices extends KeyService, CreditService, ByokService {
  readonly directory: KeyService['directory'] & CreditService['directory'];
  readonly skills: SkillService;
  /** Requests of all tenants. */
  readonly requests: AllTenantsLog;
  readonly runningRequests: RunningRequestStore;
  readonly statements: StatementReads;
  verify(report: Report, onProgress: Progress): Promise<Verification>;
  /** Configuration objects in the store. */
  readonly control: ConfigServiceDeps;
  readonly audit: AuditReads;
  /** Returns the configuration with the objects of the store. */
  currentConfig(): Promise<Config>;
  /** Downloads a file, from an address that the gateway may call. */
  download(url: string, bytesMax: number): Promise<GuardedResult>;
  /** Returns undefined if there is no such provider. Throws 400. */
  testProvider(
    name: string,
    options: Parameters<typeof testProvider>[2],
  ): Promise<ProviderTestResult | undefined>;
  /** Loads the secret keys and returns a service that re-encrypts provider keys. */
  rotation(): SecretRotation;
}

export interface Context {
  readonly args: Args;
  /** The options that every command accepts: configuration file and data directory. */
  readonly flags: Flags;
  /** Opens the store on first use. It is closed when the command ends. */
  services(): Promise<CommandServices>;
  models(): Promise<readonly ListedModel[]>;
  /** Prints text and a line break to stdout. */
  out(text: string): void;
  /** Writes a chunk of a long output to stdout. Resolves once the chunk is written. */
  write(chunk: string): Promise<void>;
  err(text: string): void;
  /** Reads all of stdin. Secrets are read from there to keep them out of the shell history. */
  input(question: InputPrompt): Promise<string>;
  /** Sets the exit code of a command that succeeds. */
  exitWith(code: number): void;
  now(): number;
}

export const commonOptions: Readonly<Record<string, Option>> = {
  json: { summary: 'Print JSON, as the HTTP API does' },
  config: { value: '<file>', summary: 'Configuration file' },
  'data-dir': { value: '<folder>', summary: 'Data directory' },
  help: { summary: 'Show this help' },
};

/** The parsed arguments of a command. */
export class Args {
  readonly positional: string;
  readonly #values: ReadonlyMap<string, string>;

  constructor(positional: string, values: ReadonlyMap<string, string>) {
    this.positional = positional;
    this.#values = values;
  }

  has(name: string): boolean {
    return this.#values.has(name);
  }

  text(name: string): string | undefined {
    return this.#values.get(name);
  }

  /** Parses a whole number. Returns other text unchanged, so that the validation rejects it. */
  number(name: string): number | string | undefined {
    const text = this.text(name);
    return text !== undefined && /^-?\d+$/.test(text) ? Number(text) : text;
  }

  /** Splits a comma-separated list. */
  list(name: string): string[] | undefined {
    return this.text(name)
      ?.split(',')
      .map((item) => item.trim());
  }
}

type ParsedArgs =
  | { readonly kind: 'args'; readonly args: Args }
  | { readonly kind: 'invalid'; readonly message: string };

export function readArgs(command: Command, argv: readonly string[]): ParsedArgs {
  const options = { ...commonOptions, ...command.options };
  // Strict mode would reject `--amount -5` as ambiguous, and its error messages differ from ours.
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
  const positionals: string[] = [];
  for (const token of tokens) {
    if (token.kind === 'positional') positionals.push(token.value);
    if (token.kind !== 'option') continue;
    const { name, rawName, value, inlineValue } = token;
    const option = Object.hasOwn(options, name) ? options[name] : undefined;
    if (!option) return invalid(unknownOption(rawName, options));
    if (values.has(name)) return invalid(`${rawName} is set twice. Use it once.`);
    if (option.value === undefined) {
      if (value !== undefined) return invalid(`${rawName} doesn't take a value.`);
    } else if (value === undefined || (!inlineValue && value.startsWith('--'))) {
      return invalid(`${rawName} needs a value: ${rawName} ${option.value}.`);
    }
    values.set(name, value ?? '');
  }
  const args = new Args(positionals[0] ?? '', values);
  return args.has('help') ? { kind: 'args', args } : checkComplete(command, args, positionals);
}

function checkComplete(command: Command, args: Args, positionals: readonly string[]): ParsedArgs {
  const { positional, options, requiresOneOf } = command;
  const surplus = positionals[positional === undefined ? 0 : 1];
  if (surplus !== undefined) return invalid(`Unexpected argument "${surplus}".`);
  if (positional?.startsWith('<') && args.positional === '')
    return invalid(`${positional} is missing.`);
  const missing = Object.keys(options).find((name) => options[name]?.required && !args.has(name));
  if (missing !== undefined) {
    return invalid(`--${missing} ${options[missing]?.value ?? ''} is missing.`);
  }
  if (requiresOneOf && !requiresOneOf.some((name) => args.has(name))) {
    const names = requiresOneOf.map((name) => `--${name}`).join(', ');
    return invalid(`Set at least one of these options: ${names}.`);
  }
  return { kind: 'args', args };
}

function unknownOption(rawName: string, options: Readonly<Record<string, Option>>): string {
  const known = Object.keys(options).filter((name) => !options[name]?.isInternal);
  const close = nearest(rawName.replace(/^-+/, ''), known);
  return `There is no option ${rawName}${close ? `; did you mean --${close}?` : '.'}`;
}

function invalid(message: string): ParsedArgs {
  return { kind: 'invalid', message };
}

// Options that several commands share.

export const tenantOption = {
  tenant: { value: '<id>', summary: 'Tenant ID (default: "default")' },
} as const;

export const offsetOption: Readonly<Record<string, Option>> = {
  offset: { value: '<n>', summary: 'Number of rows to skip (default: 0)' },
};

/** Returns the ID in --tenant, or the ID of the tenant that the first start creates. */
export function tenantIdOf(args: Args): string {
  return args.text('tenant') ?? 'default';
}

/** Opens the services. Throws if the tenant doesn't exist, before the command does anything. */
export async function servicesForTenant({ args, services }: Context) {
  const opened = await services();
  const { id } = await showTenant(opened, tenantIdOf(args));
  return { services: opened, tenantId: id };
}

export function offsetOf(args: Args): number {
  const offset = args.number('offset') ?? 0;
  if (typeof offset === 'number' && Number.isSafeInteger(offset) && offset >= 0) return offset;
  throw invalidRequest('--offset must be a whole number of at least 0.', 'offset');
}

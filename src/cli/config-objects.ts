import { parse } from 'yaml';
import { configKinds, type KindName } from '../config/kinds.ts';
import {
  type ConfigObject,
  deleteObject,
  listObjects,
  type Precondition,
  patchObject,
  putObject,
  showObject,
} from '../control/config-service.ts';
import { invalidRequest } from '../core/errors.ts';
import { definedFields, type JsonObject } from '../core/json.ts';
import type { Args, Command, Context, Option } from './command.ts';
import { formatMinute, printJson, printTable } from './output.ts';

// Commands for configuration objects in the store, the same for every kind.

interface Subject {
  readonly kind: KindName;
  /** The positional argument. */
  readonly positional: string;
  /** Options that set fields of the document. Without any, `set` and `change` read stdin. */
  readonly fields: Readonly<Record<string, Option>>;
  documentIn(args: Args): JsonObject;
}

export const versionOption = {
  version: { value: '<n>', summary: 'Fail unless this is the current version' },
} as const;

export function configCommands(subject: Subject): readonly Command[] {
  const { kind, positional, fields } = subject;
  const { noun } = configKinds[kind];
  const options = { ...fields, ...versionOption };
  const write = async (context: Context, save: typeof putObject | typeof patchObject) => {
    const { control } = await context.services();
    const id = { kind, name: context.args.positional };
    const body = await documentOf(subject, context);
    const { object } = await save(control, id, body, preconditionOf(context.args));
    printObject(context, object);
  };
  return [
    {
      name: 'show',
      summary: `Show a ${noun}`,
      positional,
      options: {},
      run: async (context) => {
        const { control } = await context.services();
        printObject(context, await showObject(control, kind, context.args.positional));
      },
    },
    {
      name: 'set',
      createsStore: true,
      summary: `Create or replace a ${noun} of the store, from options or from YAML on stdin`,
      positional,
      options,
      run: (context) => write(context, putObject),
    },
    {
      name: 'change',
      createsStore: true,
      summary: `Change some fields of a ${noun}, from options or from YAML on stdin`,
      positional,
      options,
      run: (context) => write(context, patchObject),
    },
    {
      name: 'delete',
      summary: `Delete a ${noun} of the store`,
      positional,
      options: versionOption,
      run: async (context) => {
        const { control } = await context.services();
        const id = { kind, name: context.args.positional };
        await deleteObject(control, id, preconditionOf(context.args));
        if (context.args.has('json')) return printJson(context, { deleted: true });
        context.out(`The ${noun} "${id.name}" was deleted.`);
      },
    },
  ];
}

export function listCommand(kind: KindName, shown: (document: JsonObject) => string): Command {
  const { plural } = configKinds[kind];
  return {
    name: 'list',
    summary: `List all ${plural}, with what owns them`,
    options: {},
    async run(context) {
      const { control } = await context.services();
      const objects = await listObjects(control, kind);
      if (context.args.has('json')) return printJson(context, { data: objects.map(jsonOf) });
      const rows = objects.map(({ name, owner, document, stored }) => [
        name,
        owner,
        stored?.version ?? null,
        shown(document),
        formatMinute(stored ? new Date(stored.updatedAt).toISOString() : null),
      ]);
      printTable(context, plural, ['NAME', 'OWNER', 'VERSION', 'CONFIG', 'UPDATED (UTC)'], rows);
    },
  };
}

export function preconditionOf(args: Args): Precondition {
  const version = args.number('version');
  if (version === undefined) return {};
  if (typeof version === 'number') return { match: [version] };
  throw invalidRequest('--version must be a whole number.', 'version');
}

async function documentOf({ fields, documentIn }: Subject, context: Context): Promise<unknown> {
  const { args } = context;
  if (Object.keys(fields).some((name) => args.has(name))) return definedFields(documentIn(args));
  const text = await context.input({ text: `YAML of ${args.positional}` });
  try {
    return parse(text);
  } catch (error) {
    throw invalidRequest(`The text on stdin isn't valid YAML: ${String(error)}`);
  }
}

export function printObject(context: Context, object: ConfigObject): void {
  // A document is nested, so JSON shows it best.
  printJson(context, { data: jsonOf(object) });
}

function jsonOf({ name, owner, document, stored }: ConfigObject) {
  return { name, owner, version: stored?.version ?? null, config: document };
}

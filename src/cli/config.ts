import { stringify } from 'yaml';
import { environment } from '../config/environment.ts';
import { parseConfigText, readConfigFile } from '../config/read-file.ts';
import { type ConfigDifference, exportConfig, importConfig } from '../control/config-transfer.ts';
import type { Command, Context, Topic } from './command.ts';
import { printJson } from './output.ts';

const exportCommand: Command = {
  name: 'export',
  summary: 'Print the configuration in the store as YAML, in the format of tollgate.yaml',
  options: {
    secrets: {
      summary: 'Print secrets too; otherwise, each is a variable to set at the import',
    },
  },
  async run(context) {
    const { control } = await context.services();
    const data = await exportConfig(control, context.args.has('secrets'));
    if (context.args.has('json')) return printJson(context, { data });
    context.out(Object.keys(data).length === 0 ? '{}' : stringify(data).trimEnd());
  },
};

const replaceOption = {
  replace: { summary: 'Delete objects of the store that the file lacks' },
} as const;

const importCommand: Command = {
  name: 'import',
  createsStore: true,
  summary: 'Create and replace the providers, models, and settings of a file; all of them or none',
  positional: '[file]',
  options: replaceOption,
  run: (context) => applyFile(context, false),
};

const diff: Command = {
  name: 'diff',
  summary: 'Show what an import of the file would change',
  positional: '[file]',
  options: replaceOption,
  run: (context) => applyFile(context, true),
};

/** Reads the file, or stdin without one. */
async function applyFile(context: Context, dryRun: boolean): Promise<void> {
  const { args } = context;
  const { data } =
    args.positional === ''
      ? parseConfigText('stdin', await context.input({ text: 'YAML of the configuration' }))
      : readConfigFile(args.positional);
  const { control } = await context.services();
  const options = { replace: args.has('replace'), dryRun, variables: environment };
  const changes = await importConfig(control, data, options);
  if (args.has('json')) return printJson(context, { data: changes });
  if (changes.length === 0) return context.err('Nothing changes.');
  for (const change of changes) context.out(lineOf(change));
}

const signs: Readonly<Record<ConfigDifference['change'], string>> = {
  create: '+',
  update: '~',
  delete: '-',
};

function lineOf({ kind, name, change, fields }: ConfigDifference): string {
  const changed = change === 'update' ? `: ${fields.join(', ')}` : '';
  return `${signs[change]} ${kind} ${name}${changed}`;
}

export const config: Topic = {
  name: 'config',
  summary: 'Move the configuration in the store to a file, and back',
  commands: [exportCommand, importCommand, diff],
  examples: [
    'tollgate config export > store.yaml',
    'tollgate config diff store.yaml',
    'tollgate config import store.yaml --replace',
  ],
};

import { invalidRequest } from '../core/errors.ts';
import { didYouMean } from '../core/nearest.ts';
import { gapsOf, keyPlaceholder } from './clients/gaps.ts';
import { type Client, clients } from './clients/index.ts';
import { filled, type Gaps, settingsText, stepsOf } from './clients/settings.ts';
import { type Trial, tryOut } from './clients/trial.ts';
import { type Context, onlyCommand } from './command.ts';
import { printJson } from './output.ts';
import { typed } from './own-program.ts';
import { counted, fields, table } from './table.ts';

/**
 * Prints what to set in another program so that it uses this gateway. Changes no program's files.
 */
export const connect = onlyCommand(
  'connect',
  'Print how to point a client at this gateway, and try it',
  {
    summary: 'Print how to point a client at this gateway; without a name, list the clients',
    operand: '[client]',
    options: {
      url: { value: '<address>', summary: 'Where clients reach it, if not as configured' },
      key: { value: '<sk-tg-…>', summary: 'The key to put in' },
      model: { value: '<name>', summary: 'The model to ask for (default: one that can chat)' },
      try: { summary: 'Ask one small question, as the client would' },
    },
    run: connectTo,
  },
);

async function connectTo(context: Context): Promise<void> {
  const { args, out } = context;
  if (args.operand === '') return listClients(context);
  const wanted = args.operand.toLowerCase();
  const client = clients.find(({ name }) => name === wanted);
  if (!client) throw new Error(unknownClient(wanted));
  const gaps = await gapsOf(context);
  if (args.has('try') && gaps.key === keyPlaceholder) {
    throw invalidRequest(`--try needs a key: --key ${keyPlaceholder}.`, 'key');
  }
  if (args.has('json')) {
    const trial = args.has('try') ? { trial: await tryOut(client, gaps) } : {};
    return printJson(context, { data: { ...clientObject(client, gaps), ...trial } });
  }
  out(settingsText(client, gaps));
  if (!args.has('key')) {
    out(`\nTo make a key: ${typed('keys create', `--name "${client.title}"`, context.flags)}`);
  }
  if (args.has('try')) out(`\n${trialText(await tryOut(client, gaps))}`);
}

function listClients(context: Context): void {
  const listed = clients.map(({ name, title, speaks }) => ({ name, title, speaks }));
  if (context.args.has('json')) printJson(context, { data: listed });
  else context.out(table(['NAME', 'CLIENT', 'SPEAKS'], listed.map(Object.values)));
}

function unknownClient(name: string): string {
  const names = clients.map((client) => client.name);
  const begun = names.filter((known) => known.startsWith(name));
  const near = begun.length > 0 ? `; did you mean ${begun.join(', ')}?` : didYouMean(name, names);
  return `There is no client "${name}"${near || '; "tollgate connect" lists those it knows.'}`;
}

function clientObject(client: Client, gaps: Gaps) {
  const { name, title, speaks, base, trap } = client;
  return {
    name,
    title,
    speaks,
    base_url: `${gaps.url}${base}`,
    model: gaps.model,
    steps: stepsOf(client, gaps),
    trap: filled(trap, gaps).trimEnd(),
  };
}

function trialText({ answer, cost, request_id }: Trial): string {
  return fields({
    answer: answer || 'one without words',
    cost: cost === null ? null : counted(cost, 'credit'),
    request: request_id,
  });
}

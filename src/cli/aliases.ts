import { objectsIn, textOf } from '../core/json.ts';
import type { Topic } from './command.ts';
import { configCommands, listCommand } from './config-objects.ts';

export const aliases: Topic = {
  name: 'aliases',
  summary: 'Manage your own names for models while gateways run',
  commands: [
    listCommand('alias', ({ models }) => modelsText(models)),
    ...configCommands({
      kind: 'alias',
      positional: '<name>',
      fields: {
        models: { value: '<id,…>', summary: 'The models to try, in order' },
        description: { value: '<text>', summary: 'What the alias is for' },
      },
      documentIn: (args) => ({
        models: args.list('models'),
        description: args.text('description'),
      }),
    }),
  ],
  examples: [
    'tollgate aliases set fast --models openai/gpt-5-mini,google/gemini-3.5-flash',
    'tollgate aliases set fast < fast.yaml',
  ],
};

/** Names the models of an alias, with their weights. */
function modelsText(models: unknown): string {
  const names = (Array.isArray(models) ? models : []).map((target: unknown) => {
    const [fields] = objectsIn([target]);
    if (!fields) return String(target);
    const weight = fields.weight === undefined ? '' : ` (${fields.weight})`;
    return `${textOf(fields.model)}${weight}${fields.when === undefined ? '' : ' if …'}`;
  });
  return names.join(', ');
}

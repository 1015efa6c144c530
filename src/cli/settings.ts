import { parse } from 'yaml';
import type { Topic } from './command.ts';
import { configCommands, listCommand } from './config-objects.ts';

export const settings: Topic = {
  name: 'settings',
  summary: 'Manage settings while gateways run',
  commands: [
    listCommand('setting', ({ value }) => JSON.stringify(value)),
    ...configCommands({
      kind: 'setting',
      positional: '<name>',
      fields: { value: { value: '<yaml>', summary: 'The value, such as 300, auto, or null' } },
      documentIn: (args) => ({ value: parse(args.text('value') ?? '') }),
    }),
  ],
  examples: [
    'tollgate settings set limits.requests_per_minute --value 300',
    'tollgate settings delete limits.requests_per_minute',
  ],
};

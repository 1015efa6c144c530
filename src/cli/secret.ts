import type { Command, Topic } from './command.ts';
import { printJson } from './output.ts';

const show: Command = {
  name: 'show',
  summary: 'Count what is encrypted with the secret key and with the former one',
  options: {},
  async run(context) {
    const { current, previous, undecryptable } = await (await context.services())
      .rotation()
      .count();
    if (context.args.has('json')) {
      return printJson(context, { data: { current, previous, undecryptable } });
    }
    context.out(
      `Provider keys of tenants: ${current} encrypted with the secret key, ` +
        `${previous} with the former one, ${undecryptable} that cannot be opened.`,
    );
  },
};

const rotate: Command = {
  name: 'rotate',
  summary: 'Encrypt with the secret key what the former one has encrypted',
  options: {},
  async run(context) {
    const { current, previous, undecryptable } = await (await context.services())
      .rotation()
      .rotate();
    if (context.args.has('json')) {
      return printJson(context, { data: { rotated: previous, current, undecryptable } });
    }
    context.out(
      `Provider keys of tenants: ${previous} encrypted anew, ${current} already before, ` +
        `${undecryptable} that cannot be opened. ` +
        'The former secret key is not needed for them any more.',
    );
  },
};

export const secret: Topic = {
  name: 'secret',
  summary: 'Replace the key that secrets in the store are encrypted with',
  commands: [show, rotate],
  examples: ['tollgate secret show', 'tollgate secret rotate'],
};

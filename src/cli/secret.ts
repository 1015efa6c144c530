import type { Command, Topic } from './command.ts';
import { printJson } from './output.ts';

const show: Command = {
  name: 'show',
  summary: 'Count the provider keys encrypted with the current and the previous secret key',
  options: {},
  async run(context) {
    const services = await context.services();
    const { current, previous, undecryptable } = await services.rotation().count();
    if (context.args.has('json'))
      return printJson(context, { data: { current, previous, undecryptable } });
    context.out(
      `Provider keys: ${current} encrypted with the current secret key, ` +
        `${previous} with the previous one, ${undecryptable} that can't be decrypted.`,
    );
  },
};

const rotate: Command = {
  name: 'rotate',
  summary: 'Re-encrypt provider keys with the current secret key',
  options: {},
  async run(context) {
    const services = await context.services();
    const { current, previous, undecryptable } = await services.rotation().rotate();
    if (context.args.has('json'))
      return printJson(context, { data: { rotated: previous, current, undecryptable } });
    context.out(
      `Provider keys: ${previous} re-encrypted, ${current} already up to date, ` +
        `${undecryptable} that can't be decrypted. ` +
        'The previous secret key is no longer needed to decrypt them.',
    );
  },
};

export const secret: Topic = {
  name: 'secret',
  summary: 'Rotate the secret key that encrypts provider keys',
  commands: [show, rotate],
  examples: ['tollgate secret show', 'tollgate secret rotate'],
};

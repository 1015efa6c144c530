import { environment } from '../config/environment.ts';
import { loadConfig } from '../config/load.ts';
import { type Context, onlyCommand } from './command.ts';
import { askGateway, ownAddress } from './own-address.ts';

const patienceMs = 5_000;

/** For containers, which have no other program to ask with. */
export const health = onlyCommand('health', 'Ask a running gateway whether it can serve', {
  summary: 'Ask a running gateway whether it can serve; exits with 1 when it cannot',
  options: {
    url: { value: '<address>', summary: 'Where it runs, if not as configured' },
  },
  run: ask,
});

async function ask({ args, flags, out }: Context): Promise<void> {
  const address = args.text('url') ?? ownAddress(loadConfig(flags, environment, ['server']).server);
  if (!/^https?:\/\/./.test(address)) {
    throw new Error(`--url must begin with http:// or https://, not "${address}".`);
  }
  const url = `${address.replace(/\/+$/, '')}/readyz`;
  const response = await askGateway({ method: 'GET', url, headers: {} }, patienceMs);
  const text = await response.text();
  if (response.status !== 200) throw new Error(`Not ready: ${text.slice(0, 500)}`);
  out(text);
}

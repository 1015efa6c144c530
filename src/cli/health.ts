import { environment } from '../config/environment.ts';
import { loadConfig } from '../config/load.ts';
import { type Context, onlyCommand } from './command.ts';
import { askGateway, givenAddress, ownAddress } from './own-address.ts';

const patienceMs = 5_000;

/** For health checks in containers, whose image has no other HTTP client. */
export const health = onlyCommand('health', 'Ask a running gateway whether it can serve', {
  summary: 'Ask a running gateway whether it can serve; exits with 1 when it cannot',
  options: {
    url: { value: '<address>', summary: 'Where it runs, if not as configured' },
  },
  run: ask,
});

async function ask({ args, flags, out }: Context): Promise<void> {
  const address =
    givenAddress(args) ?? ownAddress(loadConfig(flags, environment, ['server']).server);
  const call = { method: 'GET', url: `${address}/readyz`, headers: {} } as const;
  const response = await askGateway(call, patienceMs);
  const text = await response.text();
  if (response.status !== 200) throw new Error(`Not ready: ${text.slice(0, 500)}`);
  out(text);
}

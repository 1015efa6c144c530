import { environment } from '../config/environment.ts';
import { loadConfig } from '../config/load.ts';
import { type Context, singleCommandTopic } from './command.ts';
import { callGateway, ownAddress, urlOption } from './gateway-address.ts';

const timeoutMs = 5_000;

/** For health checks in containers, whose image has no other HTTP client. */
export const health = singleCommandTopic('health', 'Ask a running gateway whether it can serve', {
  summary: 'Ask a running gateway whether it can serve; exits with 1 when it cannot',
  options: {
    url: { value: '<address>', summary: 'Where it runs, if not as configured' },
  },
  run: checkHealth,
});

async function checkHealth({ args, flags, out }: Context): Promise<void> {
  const address = urlOption(args) ?? ownAddress(loadConfig(flags, environment, ['server']).server);
  const call = { method: 'GET', url: `${address}/readyz`, headers: {} } as const;
  const response = await callGateway(call, timeoutMs);
  const text = await response.text();
  if (response.status !== 200) throw new Error(`Not ready: ${text.slice(0, 500)}`);
  out(text);
}

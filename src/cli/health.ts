import { environment } from '../config/environment.ts';
import { loadConfig } from '../config/load.ts';
import { type Context, singleCommandTopic } from './command.ts';
import { callGateway, ownAddress, urlOption } from './gateway-address.ts';

const timeoutMs = 5_000;

/** Used for health checks in containers, because the image has no other HTTP client. */
export const health = singleCommandTopic('health', 'Check whether a running gateway is ready', {
  summary: 'Check whether a running gateway is ready; exits with 1 if not',
  options: {
    url: { value: '<address>', summary: 'Address of the gateway (default: as configured)' },
  },
  run: checkHealth,
});

async function checkHealth({ args, flags, out }: Context): Promise<void> {
  const address = urlOption(args) ?? ownAddress(loadConfig(flags, environment, ['server']).server);
  const call = { method: 'GET', url: `${address}/readyz`, headers: {} } as const;
  const response = await callGateway(call, timeoutMs);
  const text = await response.text();
  if (response.status !== 200) throw new Error(`The gateway isn't ready: ${text.slice(0, 500)}`);
  out(text);
}

import { environment } from '../config/environment.ts';
import { loadConfig } from '../config/load.ts';
import { type Context, singleCommandTopic } from './command.ts';
import { callGateway, localUrl, urlOption } from './gateway-url.ts';

const timeoutMs = 5_000;

/** Used for health checks in containers, because the image has no other HTTP client. */
export const health = singleCommandTopic('health', 'Check whether a running gateway is ready', {
  summary: 'Check whether a running gateway is ready; exits with 1 if not',
  options: {
    url: { value: '<url>', summary: 'URL of the gateway (default: from the configuration)' },
  },
  run: checkHealth,
});

async function checkHealth({ args, flags, out }: Context): Promise<void> {
  const baseUrl = urlOption(args) ?? localUrl(loadConfig(flags, environment, ['server']).server);
  const call = { method: 'GET', url: `${baseUrl}/readyz`, headers: {} } as const;
  const response = await callGateway(call, timeoutMs);
  const text = await response.text();
  if (response.status !== 200) throw new Error(`The gateway isn't ready: ${text.slice(0, 500)}`);
  out(text);
}

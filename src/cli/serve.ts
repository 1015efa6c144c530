import type { Config } from '../config/config.ts';
import { environment } from '../config/environment.ts';
import { loadConfig } from '../config/load.ts';
import type { Flags } from '../config/overrides.ts';
import { version } from '../config/version.ts';
import { createLog } from '../telemetry/log.ts';
import { build, type Tollgate } from '../wire.ts';
import type { Context, Topic } from './command.ts';

export const serve: Topic = {
  name: 'serve',
  summary: 'Start the gateway',
  commands: [
    {
      name: '',
      summary: 'Start the gateway',
      options: {
        host: { type: 'string', hint: '<address>', summary: 'Address to listen on' },
        port: {
          type: 'string',
          hint: '<number>',
          summary: 'Port to listen on; 0 for any free one',
        },
      },
      run: serveUntilStopped,
    },
  ],
};

async function serveUntilStopped(context: Context): Promise<void> {
  const config = loadConfig(flagsOf(context), environment);
  // Installed before anything slow: a stop during the start must not be lost.
  const stop = stopSignal();
  const log = createLog((line) => process.stderr.write(line));
  tryPort(config);
  const tollgate = await build(config, log);
  let port: number;
  try {
    port = tollgate.listen();
  } catch (thrown) {
    await tollgate.drain(0);
    throw new Error(cannotListen(config, thrown));
  }
  context.out(greeting(tollgate, config, port));
  await stop.asked;
  log.info('draining', { seconds: config.server.drainSeconds });
  await Promise.race([tollgate.drain(config.server.drainSeconds), stop.again]);
}

function flagsOf({ args, flags }: Context): Flags {
  const host = args.text('host');
  const port = args.text('port');
  return { ...flags, ...(host ? { host } : {}), ...(port ? { port } : {}) };
}

/** The first signal asks to finish, the second not to wait. */
function stopSignal(): { asked: Promise<void>; again: Promise<void> } {
  const asked = Promise.withResolvers<void>();
  const again = Promise.withResolvers<void>();
  let count = 0;
  const onSignal = () => (count++ === 0 ? asked : again).resolve();
  process.on('SIGTERM', onSignal);
  process.on('SIGINT', onSignal);
  return { asked: asked.promise, again: again.promise };
}

/** The first start shows its secrets once: one that cannot listen must not get so far. */
function tryPort(config: Config): void {
  const { host: hostname, port } = config.server;
  try {
    Bun.listen({ hostname, port, socket: { data() {} } }).stop(true);
  } catch (thrown) {
    throw new Error(cannotListen(config, thrown));
  }
}

function cannotListen({ server }: Config, thrown: unknown): string {
  const code = thrown instanceof Error && 'code' in thrown ? thrown.code : undefined;
  const where = `${server.host}:${server.port}`;
  if (code === 'EADDRINUSE') {
    return `Port ${server.port} on ${server.host} is already in use; choose another with --port.`;
  }
  if (code === 'EACCES') return `Listening on ${where} is not allowed for this user.`;
  const message = thrown instanceof Error ? thrown.message : String(thrown);
  return `Cannot listen on ${where}: ${message}`;
}

/** What a person reads first. Secrets appear on the first start only. */
function greeting(
  { firstSecrets, models, engine }: Tollgate,
  config: Config,
  port: number,
): string {
  const host = config.server.host.includes(':') ? `[${config.server.host}]` : config.server.host;
  const url = config.server.publicUrl ?? `http://${host}:${port}`;
  const data = engine === 'sqlite' ? `data in ${config.dataDir}` : `data in ${engine}`;
  const demo = config.demo ? ', the demo among them' : '';
  const lines = [
    `Tollgate ${version} is ready at ${url}`,
    `${models.length} models${demo}; ${data}; settings from ${config.source}.`,
  ];
  if (!firstSecrets) {
    lines.push('New keys: npm run tollgate keys create -- --name "my app"');
    return lines.join('\n');
  }
  const model =
    models.find(({ id }) => id === 'demo/chat')?.id ?? models[0]?.id ?? '<brand>/<model>';
  return [
    ...lines,
    '',
    'These are shown once, keep them:',
    `  Routing key     ${firstSecrets.apiKey}`,
    `  Management key  ${firstSecrets.managementKey}`,
    `  Admin token     ${firstSecrets.adminToken}`,
    '',
    'Try it:',
    `  curl ${url}/v1/chat/completions \\`,
    `    -H "Authorization: Bearer ${firstSecrets.apiKey}" \\`,
    '    -H "Content-Type: application/json" \\',
    `    -d '{"model":"${model}","messages":[{"role":"user","content":"Hello!"}]}'`,
  ].join('\n');
}

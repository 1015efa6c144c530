import type { ListedModel, Model } from '../config/config.ts';
import { environment } from '../config/environment.ts';
import { loadConfig } from '../config/load.ts';
import { invalidRequest } from '../core/errors.ts';
import { fieldsOf, objectsIn, parseJson, textOf } from '../core/json.ts';
import { didYouMean } from '../core/text.ts';
import { chatModelOf } from '../route/capability.ts';
import {
  type Client,
  clients,
  fillPlaceholders,
  type SettingValues,
  settingsText,
  stepsOf,
} from './clients/settings.ts';
import { type Args, type Context, singleCommandTopic } from './command.ts';
import { callGateway, localUrl, urlOption } from './gateway-url.ts';
import { fields, formatCount, printJson, table } from './output.ts';
import { commandLine } from './own-command.ts';

/** Prints the settings that make another program use this gateway. Changes no files. */
export const connect = singleCommandTopic(
  'connect',
  'Print the settings that a client needs for this gateway',
  {
    summary: 'Print the settings that a client needs for this gateway, or list the clients',
    positional: '[client]',
    options: {
      url: { value: '<url>', summary: 'URL of the gateway (default: from the configuration)' },
      key: { value: '<sk-tg-…>', summary: 'Routing key for the settings' },
      model: { value: '<name>', summary: 'Model (default: one that can chat)' },
      try: { summary: 'Send a short test request the way the client would' },
    },
    run: connectTo,
  },
);

async function connectTo(context: Context): Promise<void> {
  const { args, out } = context;
  if (args.positional === '') return listClients(context);
  const clientName = args.positional.toLowerCase();
  const client = clients.find(({ name }) => name === clientName);
  if (!client) throw new Error(unknownClient(clientName));
  const values = await resolveValues(context);
  if (args.has('try') && values.key === keyPlaceholder) {
    throw invalidRequest(`--try needs a key: --key ${keyPlaceholder}.`, 'key');
  }
  if (args.has('json')) {
    const trial = args.has('try') ? { trial: await runSelfTest(client, values) } : {};
    return printJson(context, { data: { ...clientObject(client, values), ...trial } });
  }
  out(settingsText(client, values));
  if (!args.has('key')) {
    out(
      `\nTo create a key: ${commandLine('keys create', `--name "${client.title}"`, context.flags)}`,
    );
  }
  if (args.has('try')) out(`\n${trialText(await runSelfTest(client, values))}`);
}

function listClients(context: Context): void {
  const listed = clients.map(({ name, title, speaks }) => ({ name, title, speaks }));
  if (context.args.has('json')) printJson(context, { data: listed });
  else context.out(table(['NAME', 'CLIENT', 'API'], listed.map(Object.values)));
}

function unknownClient(name: string): string {
  const names = clients.map((client) => client.name);
  const byPrefix = names.filter((known) => known.startsWith(name));
  const hint =
    byPrefix.length > 0 ? `; did you mean ${byPrefix.join(', ')}?` : didYouMean(name, names);
  return `There is no client "${name}"${hint || '; run "tollgate connect" to list all.'}`;
}

function clientObject(client: Client, values: SettingValues) {
  const { name, title, speaks, base, note } = client;
  return {
    name,
    title,
    speaks,
    base_url: `${values.url}${base}`,
    model: values.model,
    steps: stepsOf(client, values),
    note: fillPlaceholders(note, values).trimEnd(),
  };
}

function trialText({ answer, cost, request_id }: Trial): string {
  return fields({
    answer: answer || 'no text',
    cost: cost === null ? null : formatCount(cost, 'credit'),
    request: request_id,
  });
}

const keyPlaceholder = 'sk-tg-…';

/** Used if a model's limits are unknown. Few models have lower limits. */
const defaultLimits = { contextLength: 128_000, outputTokens: 4_096 };

type ModelInfo = Pick<Model, 'id' | 'name' | 'context_length' | 'max_completion_tokens'>;

/** Returns the values of the placeholders, from the command line or the configuration. */
async function resolveValues(context: Context): Promise<SettingValues> {
  const url = urlOf(context);
  const model = modelOf(context.args, await context.models());
  return {
    url,
    container_url: fromContainer(url),
    key: keyOf(context.args),
    model: model.id,
    // Some clients' settings put the name between double quotes.
    model_name: model.name.replace(/["\\\p{Cc}]/gu, ''),
    context: String(model.context_length ?? defaultLimits.contextLength),
    output: String(model.max_completion_tokens ?? defaultLimits.outputTokens),
  };
}

function urlOf({ args, flags }: Context): string {
  const url = urlOption(args);
  if (url !== undefined) return url;
  const { server } = loadConfig(flags, environment, ['server']);
  return server.publicUrl ?? localUrl(server);
}

/** Replaces a loopback address, which inside a container means the container itself. */
function fromContainer(url: string): string {
  return url.replace(/\/\/(?:127\.0\.0\.1|localhost|\[::1\])(?=[:/]|$)/, '//host.docker.internal');
}

function keyOf(args: Args): string {
  const key = args.text('key') ?? keyPlaceholder;
  if (key === keyPlaceholder || /^sk-tg-[\w-]+$/.test(key)) return key;
  throw invalidRequest('--key must be a routing key, which starts with sk-tg-.', 'key');
}

/** Returns the model in --model. A gateway at --url may have models that aren't configured here. */
function modelOf(args: Args, models: readonly ListedModel[]): ModelInfo {
  const modelName = args.text('model');
  if (modelName === undefined) return defaultModel(models);
  const known = models.find(({ id }) => id === modelName);
  if (known) return known;
  if (args.has('url') && /^[\w.-]+\/[\w.:-]+$/.test(modelName))
    return { id: modelName, name: modelName };
  const near = didYouMean(
    modelName,
    models.map(({ id }) => id),
  );
  throw invalidRequest(
    `There is no model "${modelName}"${near || '; see "tollgate models".'}`,
    'model',
  );
}

function defaultModel(models: readonly ListedModel[]): Model {
  const model = chatModelOf(models.filter(({ isConfigured }) => isConfigured));
  if (model) return model;
  const message = 'No models are available. Configure a provider, or set --model.';
  throw invalidRequest(message, 'model');
}

/** The result of a test request, sent to a running gateway the way a client would. */
interface Trial {
  readonly request_id: string;
  readonly answer: string;
  /** Null if the gateway has no receipt for the request. */
  readonly cost: number | null;
}

/** Long, because a model may reason before it answers. */
const trialTimeoutMs = 60_000;
const question = 'Say hello in one short sentence.';
const messages = [{ role: 'user', content: question }];
/** Enough for an answer even if the model reasons first. */
const outputTokens = 512;
/** Maximum number of characters printed of the answer. */
const shownMax = 80;

interface TrialFormat {
  headers(key: string): Readonly<Record<string, string>>;
  readonly body: object;
  textOfAnswer(answer: unknown): string;
}

const bearer = (key: string) => ({ authorization: `Bearer ${key}` });

const trialFormats: { readonly [Name in Client['speaks']]: TrialFormat } = {
  chat: {
    headers: bearer,
    body: { messages, max_tokens: outputTokens },
    textOfAnswer: (answer) => {
      const [choice] = objectsIn(fieldsOf(answer).choices);
      return textOf(fieldsOf(choice?.message).content);
    },
  },
  messages: {
    headers: (key) => ({ 'x-api-key': key, 'anthropic-version': '2023-06-01' }),
    body: { messages, max_tokens: outputTokens },
    textOfAnswer: (answer) => textIn(fieldsOf(answer).content),
  },
  responses: {
    headers: bearer,
    body: { input: question, max_output_tokens: outputTokens, store: false },
    textOfAnswer: (answer) =>
      objectsIn(fieldsOf(answer).output)
        .map((item) => textIn(item.content))
        .join(''),
  },
};

function textIn(content: unknown): string {
  return objectsIn(content)
    .map(({ text }) => textOf(text))
    .join('');
}

function shorten(text: string): string {
  return text.length > shownMax ? `${text.slice(0, shownMax)}…` : text;
}

/** Sends a test request. If it is rejected, throws an error with the server's message. */
async function runSelfTest(
  { speaks, base, appends }: Client,
  values: SettingValues,
): Promise<Trial> {
  const { headers, body, textOfAnswer } = trialFormats[speaks];
  const call = {
    method: 'POST',
    url: `${values.url}${base}${appends}`,
    headers: { ...headers(values.key), 'content-type': 'application/json' },
    body: JSON.stringify({ model: values.model, ...body }),
  } as const;
  const response = await callGateway(call, trialTimeoutMs);
  const text = await response.text();
  const answer = parseJson(text);
  if (response.status !== 200) {
    const { message } = fieldsOf(fieldsOf(answer).error);
    throw new Error(
      textOf(message) || `The server returned ${response.status} without an error message.`,
    );
  }
  const requestId = response.headers.get('x-request-id');
  if (requestId === null) {
    throw new Error(`The server at ${values.url} isn't a Tollgate gateway. Check --url.`);
  }
  return {
    request_id: requestId,
    answer: shorten(textOfAnswer(answer)),
    cost: await costOf(requestId, values),
  };
}

async function costOf(requestId: string, { url, key }: SettingValues): Promise<number | null> {
  const receiptUrl = `${url}/v1/generation?id=${encodeURIComponent(requestId)}`;
  const call = { method: 'GET', url: receiptUrl, headers: bearer(key) } as const;
  const response = await callGateway(call, trialTimeoutMs);
  const { total_cost: cost } = fieldsOf(fieldsOf(parseJson(await response.text())).data);
  return typeof cost === 'number' ? cost : null;
}

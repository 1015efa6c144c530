import type { Model } from '../../config/config.ts';
import { environment } from '../../config/environment.ts';
import type { ListedModel } from '../../config/listed-models.ts';
import { loadConfig } from '../../config/load.ts';
import { invalidRequest } from '../../core/errors.ts';
import { didYouMean } from '../../core/nearest.ts';
import { chatModelOf } from '../../route/capability.ts';
import type { Args, Context } from '../command.ts';
import { givenAddress, ownAddress } from '../own-address.ts';
import type { Gaps } from './settings.ts';

/** Finds the values for the gaps: on the command line, else in the configuration. */

export const keyPlaceholder = 'sk-tg-…';

/** For a model without known limits: small enough to be true of most models. */
const usual = { contextLength: 128_000, outputTokens: 4_096 };

type Named = Pick<Model, 'id' | 'name' | 'context_length' | 'max_completion_tokens'>;

export async function gapsOf(context: Context): Promise<Gaps> {
  const url = urlOf(context);
  const model = modelOf(context.args, await context.models());
  return {
    url,
    container_url: fromContainer(url),
    key: keyOf(context.args),
    model: model.id,
    // The settings of some clients hold the name inside double quotes.
    model_name: model.name.replace(/["\\\p{Cc}]/gu, ''),
    context: String(model.context_length ?? usual.contextLength),
    output: String(model.max_completion_tokens ?? usual.outputTokens),
  };
}

function urlOf({ args, flags }: Context): string {
  const given = givenAddress(args);
  if (given !== undefined) return given;
  const { server } = loadConfig(flags, environment, ['server']);
  return server.publicUrl ?? ownAddress(server);
}

/** Inside a container, loopback addresses mean the container, not the machine that it runs on. */
function fromContainer(url: string): string {
  return url.replace(/\/\/(?:127\.0\.0\.1|localhost|\[::1\])(?=[:/]|$)/, '//host.docker.internal');
}

function keyOf(args: Args): string {
  const key = args.text('key') ?? keyPlaceholder;
  if (key === keyPlaceholder || /^sk-tg-[\w-]+$/.test(key)) return key;
  throw invalidRequest('--key must be a routing key: it begins with sk-tg-.', 'key');
}

/** A gateway at another `--url` may have models that this configuration does not know. */
function modelOf(args: Args, models: readonly ListedModel[]): Named {
  const wanted = args.text('model');
  if (wanted === undefined) return anyModel(models);
  const known = models.find(({ id }) => id === wanted);
  if (known) return known;
  if (args.has('url') && /^[\w.-]+\/[\w.:-]+$/.test(wanted)) return { id: wanted, name: wanted };
  const near = didYouMean(
    wanted,
    models.map(({ id }) => id),
  );
  throw invalidRequest(
    `There is no model "${wanted}"${near || '; see "tollgate models".'}`,
    'model',
  );
}

function anyModel(models: readonly ListedModel[]): Model {
  const model = chatModelOf(models.filter(({ isLive }) => isLive));
  if (model) return model;
  const message = 'No model can be called yet: configure a provider, or name one with --model.';
  throw invalidRequest(message, 'model');
}

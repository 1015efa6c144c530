import type { DialectName } from '../config/provider-schema.ts';
import type { Dialogue } from '../core/dialogue.ts';
import type { ClientDialect, Conversation, Crossing, UpstreamDialect } from './dialect.ts';
import { translate } from './translation.ts';
import { upstreamDialect } from './upstreams.ts';

/**
 * The way from a client's request to an upstream: one that speaks as the client does gets the
 * client's own words, another a translation of the dialogue.
 */
export function wayTo(
  dialect: DialectName,
  own: UpstreamDialect,
  same: Crossing,
  asked: Pick<Conversation, 'client' | 'dialogue'>,
): Crossing | undefined {
  const upstream = upstreamDialect(dialect);
  if (upstream === own) return same;
  return upstream && translate(asked.dialogue(), asked.client, upstream);
}

/** The ways from one client's request to every upstream; its dialogue is read once. */
export function waysFrom(
  client: ClientDialect,
  own: UpstreamDialect,
  same: Crossing,
  read: () => Dialogue,
): Pick<Conversation, 'crossTo' | 'dialogue'> {
  let known: Dialogue | undefined;
  const dialogue = () => {
    known ??= read();
    return known;
  };
  return { crossTo: (dialect) => wayTo(dialect, own, same, { client, dialogue }), dialogue };
}

import type { DialectName } from '../config/provider-schema.ts';
import type { Dialogue } from '../core/dialogue.ts';
import type { ClientDialect, Conversation, Crossing, UpstreamDialect } from './dialect.ts';
import { translate } from './translation.ts';
import { upstreamDialect } from './upstreams.ts';

/**
 * The ways from one client's request to every upstream: one that speaks as the client does gets the
 * client's own words, the others a translation of the dialogue, which is read once.
 */
export function waysFrom(
  client: ClientDialect,
  own: UpstreamDialect,
  same: Crossing,
  read: () => Dialogue,
): Pick<Conversation, 'crossTo' | 'dialogue'> {
  let dialogue: Dialogue | undefined;
  const readOnce = () => {
    dialogue ??= read();
    return dialogue;
  };
  return {
    crossTo(dialect: DialectName) {
      const upstream = upstreamDialect(dialect);
      if (upstream === own) return same;
      return upstream && translate(readOnce(), client, upstream);
    },
    dialogue: readOnce,
  };
}

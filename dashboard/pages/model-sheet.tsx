import { isPriceName, priceClasses } from '../../src/money/price/price-classes.ts';
import { CodeLine, CopyButton } from '../components/copy.tsx';
import { Dialog } from '../components/dialog.tsx';
import { Badge, CircuitState } from '../components/feedback.tsx';
import { DescriptionList } from '../components/page.tsx';
import { count, milliseconds, price } from '../format.ts';
import { closeOverlay, urlFor } from '../route.ts';
import type { Endpoint } from '../shapes.ts';
import { chatCurl, sampleCurl } from '../snippets.ts';
import type { CatalogModel } from './models.tsx';

function priceLabel(name: string): string {
  return isPriceName(name) ? priceClasses[name].priceLabel : name;
}

/** Returns the model's main price in one line, for a list. */
export function shortPrice(endpoint: Pick<Endpoint, 'pricing'> | undefined): string {
  const pricing = endpoint?.pricing ?? {};
  const { prompt, completion, minute, characters, bytes, output_image } = pricing;
  if (output_image !== undefined) return `${price(output_image)} per image`;
  if (minute !== undefined) return `${price(minute)} per minute`;
  if (characters !== undefined) return `${price(characters)} per 1M characters`;
  if (bytes !== undefined) return `${price(bytes)} per 1M bytes`;
  if (completion === undefined || completion === '0') return `${price(prompt ?? '0')} per 1M`;
  return `${price(prompt ?? '0')} in · ${price(completion)} out`;
}

export function canChat({ architecture }: CatalogModel): boolean {
  const otherFeatures = ['embeddings', 'speech', 'transcription', 'image_generation', 'image_edit'];
  const isOther = architecture.features.some((feature) => otherFeatures.includes(feature));
  return architecture.output_modalities.includes('text') && !isOther;
}

export function ModelSheet({ model }: { readonly model: CatalogModel }) {
  const { architecture } = model;
  const command = canChat(model) ? chatCurl(model.id) : sampleCurl(model.id, architecture.features);
  const details: [string, string][] = [
    ['Context', model.context_length === 0 ? '–' : `${count(model.context_length)} tokens`],
    ['Max output', model.context_length === 0 ? '–' : `${count(model.max_output_tokens)} tokens`],
    ['Input', architecture.input_modalities.join(', ')],
    ['Output', architecture.output_modalities.join(', ')],
  ];
  return (
    <Dialog title={model.name} variant="sheet" onClose={() => closeOverlay('model')}>
      <p class="id-line">
        <code>{model.id}</code>
        <CopyButton text={model.id} label="model alias" />
      </p>
      {model.description && <p>{model.description}</p>}
      <p class="badges">
        {architecture.features.map((feature) => (
          <Badge key={feature}>{feature.replaceAll('_', ' ')}</Badge>
        ))}
      </p>
      <DescriptionList items={details} />
      <h3>Providers, in the order they are tried</h3>
      <ol class="endpoints">
        {model.endpoints.map((endpoint) => (
          <li key={`${endpoint.provider}-${endpoint.traffic_mode}-${endpoint.priority}`}>
            <EndpointDetails endpoint={endpoint} />
          </li>
        ))}
      </ol>
      <p class="buttons">
        {canChat(model) && (
          <a class="button primary" href={urlFor('playground', { model: model.id })}>
            Try it in the playground
          </a>
        )}
        <a class="button secondary" href={urlFor('logs', { model: model.id })}>
          View requests
        </a>
      </p>
      {command !== undefined && <CodeLine text={command} label="command" />}
    </Dialog>
  );
}

function EndpointDetails({ endpoint }: { readonly endpoint: Endpoint }) {
  const { provider, circuit, traffic_mode, first_byte_ms, tokens_per_second } = endpoint;
  const speeds = [
    first_byte_ms === null ? null : `first byte ${milliseconds(Math.round(first_byte_ms))}`,
    tokens_per_second === null ? null : `${count(tokens_per_second)} tokens/s`,
  ].filter((text) => text !== null);
  return (
    <>
      <p>
        <b>{provider}</b> <CircuitState circuit={circuit} />
        {traffic_mode === 'byok' && <Badge tone="accent">BYOK</Badge>}
      </p>
      <ul class="prices">
        {Object.entries(endpoint.pricing).map(([name, text]) => (
          <li key={name}>
            <b>{price(text)}</b> {priceLabel(name)}
          </li>
        ))}
      </ul>
      {endpoint.long_prompts?.map(({ above_tokens, ...changed }) => (
        <div key={above_tokens}>
          <p class="hint">Entire request, if the prompt exceeds {count(above_tokens)} tokens:</p>
          <ul class="prices">
            {Object.entries(changed).map(([name, text]) => (
              <li key={name}>
                <b>{price(String(text))}</b> {priceLabel(name)}
              </li>
            ))}
          </ul>
        </div>
      ))}
      {speeds.length > 0 && <p class="hint">{speeds.join(' · ')}</p>}
    </>
  );
}

import type { Feature } from '../../src/config/model-schema.ts';
import { fieldsOf, itemsOf, type JsonObject, objectsIn, textOf } from '../../src/core/json.ts';
import type { PriceName } from '../../src/money/price/price-classes.ts';
import { requestData } from '../api.ts';
import { ErrorNote } from '../components/feedback.tsx';
import { Checkbox, NumberField, TextField } from '../components/field.tsx';
import { PriceFields } from '../components/price-fields.tsx';
import { RowAction } from '../components/row-action.tsx';
import { type FormPartProps, fieldSetter, numberOf } from '../config-form.ts';
import { useLoad } from '../load.ts';
import { priceProblems } from '../price-history.ts';
import { urlFor } from '../route.ts';
import { useSession } from '../session.ts';
import type { ConfigObject } from '../shapes.ts';

const modalities = ['text', 'image', 'audio', 'file', 'video'];

const features: Readonly<Record<Feature, string>> = {
  tools: 'tools',
  json_mode: 'JSON mode',
  json_schema: 'JSON schema',
  reasoning: 'reasoning',
  embeddings: 'embeddings',
  speech: 'speech',
  transcription: 'transcription',
  image_generation: 'image generation',
  image_edit: 'image edits',
};

const fieldPath =
  /^(?:name|context_length|max_completion_tokens|endpoints\[(\d+)\]\.(?:provider|model|priority|weight|pricing(?:\.(?!long_prompts)\w+)?))$/;

export function isModelField(path: string, { endpoints }: JsonObject): boolean {
  const found = fieldPath.exec(path);
  return found !== null && Number(found[1] ?? -1) < itemsOf(endpoints).length;
}

export function modelProblems({ endpoints }: JsonObject): ReadonlyMap<string, string> {
  return new Map(
    objectsIn(endpoints).flatMap(({ pricing }, index) => {
      const { long_prompts: _, ...prices } = fieldsOf(pricing);
      return [...priceProblems(prices, `endpoints[${index}].pricing`)];
    }),
  );
}

/** The fields of a model that most models need. */
export function ModelFields(props: FormPartProps) {
  const { document, onDocument, errorAt } = props;
  const set = fieldSetter(document, onDocument);
  const number = (name: string, label: string) => (
    <NumberField
      label={label}
      min="1"
      placeholder="unknown"
      value={numberOf(document[name])}
      onNumber={(value) => set(name, value)}
      error={errorAt(name)}
    />
  );
  return (
    <>
      <TextField
        label="Display name"
        placeholder="Acme Chat"
        value={textOf(document.name)}
        onValue={(text) => set('name', text)}
        error={errorAt('name')}
        required
      />
      <div class="pair">
        {number('context_length', 'Context (tokens)')}
        {number('max_completion_tokens', 'Max output (tokens)')}
      </div>
      <Choices
        label="Input"
        options={modalities.map((name) => [name, name])}
        values={itemsOf(document.input_modalities)}
        onValues={(values) => set('input_modalities', values)}
      />
      <Choices
        label="Output"
        options={modalities.map((name) => [name, name])}
        values={itemsOf(document.output_modalities)}
        onValues={(values) => set('output_modalities', values)}
      />
      <Choices
        label="Features"
        options={Object.entries(features)}
        values={itemsOf(document.features)}
        onValues={(values) => set('features', values.length > 0 ? values : undefined)}
      />
      <Endpoints {...props} />
    </>
  );
}

/** The providers of a model, with its initial prices there. */
function Endpoints({ document, onDocument, errorAt, current }: FormPartProps) {
  const { key } = useSession();
  const { data: providers = [] } = useLoad('providers of models', (signal) =>
    requestData<ConfigObject[]>('/admin/v1/providers', { key, signal }),
  );
  const set = fieldSetter(document, onDocument);
  const endpoints = objectsIn(document.endpoints);
  return (
    <>
      {current && (
        <p class="hint">
          These are the initial prices.{' '}
          <a href={urlFor('prices', { search: current.name })}>Prices</a> shows those in force, and
          can change them at a time.
        </p>
      )}
      <ol class="stack" aria-label="Endpoints">
        {[...endpoints.entries()].map(([index, endpoint]) => (
          <li key={`${index} of ${endpoints.length}`}>
            <EndpointFields
              endpoint={endpoint}
              index={index}
              providers={providers.map(({ name }) => name)}
              errorAt={(path) => errorAt(`endpoints[${index}].${path}`)}
              onEndpoint={(changed) => set('endpoints', endpoints.with(index, changed))}
              onRemove={
                endpoints.length > 1
                  ? () => set('endpoints', endpoints.toSpliced(index, 1))
                  : undefined
              }
            />
          </li>
        ))}
      </ol>
      <p class="buttons">
        <button
          type="button"
          class="secondary small"
          onClick={() => set('endpoints', [...endpoints, { provider: '', model: '', pricing: {} }])}
        >
          Add a provider
        </button>
      </p>
    </>
  );
}

interface ChoicesProps {
  readonly label: string;
  readonly options: readonly (readonly [value: string, text: string])[];
  readonly values: readonly unknown[];
  readonly onValues: (values: readonly unknown[]) => void;
}

function Choices({ label, options, values, onValues }: ChoicesProps) {
  return (
    <fieldset class="checkboxes">
      <legend>{label}</legend>
      {options.map(([value, text]) => (
        <Checkbox
          key={value}
          label={text}
          checked={values.includes(value)}
          onChange={(isChosen) =>
            onValues(isChosen ? [...values, value] : values.filter((one) => one !== value))
          }
        />
      ))}
    </fieldset>
  );
}

interface EndpointProps {
  readonly endpoint: JsonObject;
  readonly index: number;
  readonly providers: readonly string[];
  readonly errorAt: (path: string) => string | undefined;
  readonly onEndpoint: (endpoint: JsonObject) => void;
  readonly onRemove: (() => void) | undefined;
}

/** One provider of a model, with its prices. */
function EndpointFields(props: EndpointProps) {
  const { endpoint, index, providers, errorAt, onEndpoint, onRemove } = props;
  const set = fieldSetter(endpoint, onEndpoint);
  const pricing = fieldsOf(endpoint.pricing);
  const setPrice = (name: PriceName, text: string) => {
    const { [name]: _, ...rest } = pricing;
    set('pricing', text === '' ? rest : { ...rest, [name]: text });
  };
  const text = (name: string, label: string, placeholder: string) => (
    <TextField
      label={label}
      placeholder={placeholder}
      value={textOf(endpoint[name])}
      onValue={(value) => set(name, value.trim())}
      error={errorAt(name)}
      required
      {...(name === 'provider' ? { suggestions: providers } : {})}
    />
  );
  const number = (name: string, label: string, placeholder: string) => (
    <NumberField
      label={label}
      min="0"
      max="1000"
      placeholder={placeholder}
      value={numberOf(endpoint[name])}
      onNumber={(value) => set(name, value)}
      error={errorAt(name)}
    />
  );
  return (
    <fieldset class="fields">
      <legend>Provider {index + 1}</legend>
      <div class="pair">
        {text('provider', 'Provider', 'acme')}
        {text('model', 'Its name for the model', 'chat-1')}
      </div>
      <div class="pair">
        {number('priority', 'Priority (lowest first)', '0')}
        {number('weight', 'Weight', 'none')}
      </div>
      <PriceFields
        prices={pricing as Readonly<Partial<Record<PriceName, string>>>}
        main={['prompt', 'completion']}
        onPrice={setPrice}
        errorAt={(name) => errorAt(`pricing.${name}`)}
      />
      <ErrorNote message={errorAt('pricing')} />
      {onRemove && (
        <p class="buttons">
          <RowAction text="Remove" label={`Remove provider ${index + 1}`} onClick={onRemove} />
        </p>
      )}
    </fieldset>
  );
}

import { useId } from 'preact/hooks';
import { fieldsOf, isObject, itemsOf, type JsonObject, textOf } from '../../src/core/json.ts';
import { requestData } from '../api.ts';
import {
  ListField,
  NumberField,
  SelectField,
  Suggestions,
  TextField,
} from '../components/field.tsx';
import { RowAction } from '../components/row-action.tsx';
import { type FormPartProps, fieldSetter, numberOf } from '../config-form.ts';
import { percent } from '../format.ts';
import { useLoad } from '../load.ts';
import { useSession } from '../session.ts';
import type { ConfigObject } from '../shapes.ts';

const fieldPath =
  /^(?:description|models\[\d+\](?:\.(?:model|weight|when\.(?:input_tokens_above|percent|tag|header\.name|header\.value)))?)$/;

export function isAliasField(path: string, { models }: JsonObject): boolean {
  const index = /^models\[(\d+)\]/.exec(path)?.[1];
  const isKnown = index === undefined || Number(index) < itemsOf(models).length;
  return isKnown && fieldPath.test(path);
}

/** The models that an alias stands for, in order, with weights and conditions. */
export function AliasFields({ document, onDocument, errorAt, current }: FormPartProps) {
  const { key } = useSession();
  const { data: models = [] } = useLoad('models of aliases', (signal) =>
    requestData<ConfigObject[]>('/admin/v1/models', { key, signal }),
  );
  const list = useId();
  const set = fieldSetter(document, onDocument);
  const targets = itemsOf(document.models).map(targetOf);
  const setTargets = (changed: readonly JsonObject[]) =>
    set(
      'models',
      changed.map((target) => (Object.keys(target).length > 1 ? target : textOf(target.model))),
    );
  return (
    <>
      <TextField
        label="Description"
        placeholder="optional"
        value={textOf(document.description)}
        onValue={(text) => set('description', text === '' ? undefined : text)}
        error={errorAt('description')}
      />
      <p class="hint">
        The models are tried in this order. Of those with a weight, one is chosen at random to come
        first.
      </p>
      <Suggestions id={list} texts={models.map(({ name }) => name)} />
      <ol class="stack" aria-label="Models">
        {[...targets.entries()].map(([index, target]) => (
          <li key={`${current?.version} ${index} of ${targets.length}`}>
            <Target
              target={target}
              index={index}
              share={shareOf(target, targets)}
              list={list}
              errorAt={(path) => errorAt(`models[${index}]${path}`)}
              onTarget={(changed) => setTargets(targets.with(index, changed))}
              onRemove={
                targets.length > 1 ? () => setTargets(targets.toSpliced(index, 1)) : undefined
              }
              onUp={
                index > 0
                  ? () => setTargets(targets.toSpliced(index, 1).toSpliced(index - 1, 0, target))
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
          onClick={() => setTargets([...targets, { model: '' }])}
        >
          Add a model
        </button>
      </p>
    </>
  );
}

const targetOf = (target: unknown): JsonObject =>
  isObject(target) ? target : { model: String(target) };

/** Returns how often a model with a weight comes first, if no condition excludes one. */
function shareOf({ weight }: JsonObject, targets: readonly JsonObject[]): string | undefined {
  if (typeof weight !== 'number') return undefined;
  const sum = targets.reduce((total, one) => total + (Number(one.weight) || 0), 0);
  return percent(sum === 0 ? 0 : (100 * weight) / sum);
}

interface TargetProps {
  readonly target: JsonObject;
  readonly index: number;
  readonly share: string | undefined;
  readonly list: string;
  readonly errorAt: (path: string) => string | undefined;
  readonly onTarget: (target: JsonObject) => void;
  readonly onRemove: (() => void) | undefined;
  readonly onUp: (() => void) | undefined;
}

function Target(props: TargetProps) {
  const { target, index, share, list, errorAt, onTarget, onRemove, onUp } = props;
  const set = fieldSetter(target, onTarget);
  const conditions = fieldsOf(target.when);
  const name = `model ${index + 1}`;
  return (
    <fieldset class="fields">
      <legend>Model {index + 1}</legend>
      <div class="pair wide-first">
        <TextField
          label="Model"
          placeholder="acme/chat"
          list={list}
          value={textOf(target.model)}
          onValue={(text) => set('model', text.trim())}
          error={errorAt('.model') ?? errorAt('')}
          required
        />
        <NumberField
          label={share === undefined ? 'Weight' : `Weight (${share})`}
          min="0"
          max="1000000"
          placeholder="none"
          value={numberOf(target.weight)}
          onNumber={(value) => set('weight', value)}
          error={errorAt('.weight')}
        />
      </div>
      <details open={Object.keys(conditions).length > 0}>
        <summary>Only for some requests</summary>
        <Conditions
          conditions={conditions}
          onConditions={(when) => set('when', Object.keys(when).length > 0 ? when : undefined)}
          errorAt={(path) => errorAt(`.when.${path}`)}
        />
      </details>
      {(onUp || onRemove) && (
        <p class="buttons">
          {onUp && <RowAction text="Move up" label={`Move up ${name}`} onClick={onUp} />}
          {onRemove && <RowAction text="Remove" label={`Remove ${name}`} onClick={onRemove} />}
        </p>
      )}
    </fieldset>
  );
}

const choices = [
  ['', 'any requests'],
  ['true', 'only with'],
  ['false', 'only without'],
] as const;

interface ConditionsProps {
  readonly conditions: JsonObject;
  readonly onConditions: (conditions: JsonObject) => void;
  readonly errorAt: (path: string) => string | undefined;
}

/** All conditions have to hold. */
function Conditions({ conditions, onConditions, errorAt }: ConditionsProps) {
  const set = fieldSetter(conditions, onConditions);
  const header = fieldsOf(conditions.header);
  const setHeader = (change: JsonObject) => {
    const { name, value } = { name: '', value: '', ...header, ...change };
    set('header', name === '' && value === '' ? undefined : { name, value });
  };
  const choice = (name: string, label: string) => (
    <SelectField
      label={label}
      value={String(conditions[name] ?? '')}
      onValue={(value) => set(name, value === '' ? undefined : value === 'true')}
      options={choices}
    />
  );
  const list = (name: string, label: string) => (
    <ListField
      label={label}
      placeholder="any"
      values={itemsOf(conditions[name]).map(String)}
      onValues={(values) => set(name, values.length > 0 ? values : undefined)}
      error={errorAt(name)}
    />
  );
  const number = (name: string, label: string, limits: object) => (
    <NumberField
      label={label}
      placeholder="any"
      {...limits}
      value={numberOf(conditions[name])}
      onNumber={(value) => set(name, value)}
      error={errorAt(name)}
    />
  );
  const headerField = (name: 'name' | 'value', label: string) => (
    <TextField
      label={label}
      placeholder="any"
      value={textOf(header[name])}
      onValue={(text) => setHeader({ [name]: text })}
      error={errorAt(`header.${name}`)}
    />
  );
  return (
    <div class="price-fields">
      {number('input_tokens_above', 'Input tokens above', { min: '0' })}
      {number('percent', 'Share of requests (%)', { min: '0', max: '100', step: 'any' })}
      {choice('images', 'Images')}
      {choice('tools', 'Tools')}
      {headerField('name', 'Header')}
      {headerField('value', 'Value of the header')}
      <TextField
        label="Tag"
        placeholder="any"
        value={textOf(conditions.tag)}
        onValue={(text) => set('tag', text === '' ? undefined : text)}
        error={errorAt('tag')}
      />
      {list('tenants', 'Tenant IDs')}
      {list('keys', 'API key IDs')}
    </div>
  );
}

/** Returns the models of an alias, with the weights and conditions that they have. */
export function targetsOf({ config }: ConfigObject): readonly string[] {
  const targets = itemsOf(config?.models).map(targetOf);
  return targets.map((target) => {
    const share = shareOf(target, targets);
    const conditions = Object.keys(fieldsOf(target.when)).map((name) => name.replaceAll('_', ' '));
    const details = [share, conditions.length > 0 ? `if ${conditions.join(', ')}` : undefined];
    return [textOf(target.model), ...details.filter((text) => text !== undefined)].join(' · ');
  });
}

import { useState } from 'preact/hooks';
import {
  isPriceName,
  type PriceName,
  priceClasses,
  tokenPriceNames,
} from '../../src/money/price/price-classes.ts';
import { price } from '../format.ts';
import { changeText, type Pricing, unsetText } from '../price-history.ts';
import { NumberField, TextField } from './field.tsx';

type Prices = Readonly<Partial<Record<PriceName, string>>>;

interface PriceFieldsProps {
  readonly prices: Prices;
  readonly onPrice: (name: PriceName, text: string) => void;
  readonly errorAt: (name: string) => string | undefined;
  /** The prices in force, to compare with. */
  readonly before?: Prices | undefined;
  readonly names?: readonly PriceName[];
  /** Shown in an empty field, instead of what the price then is. */
  readonly none?: string;
  /** The prices that always have a field. The others are below “More prices”. */
  readonly main?: readonly PriceName[];
}

const capitalized = (text: string) => text.charAt(0).toUpperCase() + text.slice(1);
const allNames = Object.keys(priceClasses).filter(isPriceName);

/** A text field for each price, because a number field may round what is typed. */
export function PriceFields(props: PriceFieldsProps) {
  const { prices, names = allNames, main = [] } = props;
  // A field stays where it is while it's empty.
  const [shown] = useState(() =>
    names.filter((name) => main.includes(name) || prices[name] !== undefined),
  );
  const others = names.filter((name) => !shown.includes(name));
  const hasError = others.some((name) => props.errorAt(name) !== undefined);
  return (
    <>
      <div class="price-fields">
        {shown.map((name) => (
          <PriceField key={name} {...props} name={name} />
        ))}
      </div>
      {others.length > 0 && (
        <details open={hasError}>
          <summary>More prices</summary>
          <div class="price-fields">
            {others.map((name) => (
              <PriceField key={name} {...props} name={name} />
            ))}
          </div>
        </details>
      )}
    </>
  );
}

function PriceField({
  name,
  prices,
  onPrice,
  errorAt,
  before,
  none,
}: PriceFieldsProps & { readonly name: PriceName }) {
  const text = prices[name];
  return (
    <TextField
      label={`${capitalized(priceClasses[name].priceLabel)} ($)`}
      inputMode="decimal"
      placeholder={none ?? unsetText(name)}
      value={text ?? ''}
      onValue={(value) => onPrice(name, value.trim())}
      error={errorAt(name)}
      {...(before && { hint: comparison(before[name], text) })}
    />
  );
}

/** Always has text, so that the fields below don't move while a price is typed. */
function comparison(before: string | undefined, after: string | undefined): string {
  if (before === undefined) return 'Not set now';
  const isNumber = after === undefined || !Number.isNaN(Number(after));
  const change = isNumber ? changeText(before, after) : undefined;
  return `${price(before)} now${change === undefined ? '' : `, ${change}`}`;
}

interface PricingFieldsProps {
  readonly pricing: Pricing;
  readonly onPricing: (pricing: Pricing) => void;
  /** Takes paths such as `pricing.long_prompts[0].prompt`. */
  readonly errorAt: (path: string) => string | undefined;
  readonly before?: Pricing | undefined;
}

/** The fields of all prices, also of those for long prompts. */
export function PricingFields({ pricing, onPricing, errorAt, before }: PricingFieldsProps) {
  const { long_prompts: tiers = [] } = pricing;
  const setTiers = (changed: typeof tiers) => {
    const { long_prompts: _, ...rest } = pricing;
    onPricing(changed.length === 0 ? rest : { ...rest, long_prompts: changed });
  };
  const setTier = (index: number, change: object) =>
    setTiers(tiers.map((tier, at) => (at === index ? { ...tier, ...change } : tier)));
  return (
    <>
      <PriceFields
        prices={pricing}
        onPrice={(name, text) => onPricing(withPrice(pricing, name, text))}
        errorAt={(name) => errorAt(`pricing.${name}`)}
        before={before}
      />
      {[...tiers.entries()].map(([index, tier]) => (
        <fieldset key={index} class="fields">
          <legend>Prices of long prompts</legend>
          <NumberField
            label="If the prompt has more tokens than"
            min="1"
            value={tier.above_tokens || undefined}
            onNumber={(value = 0) => setTier(index, { above_tokens: value })}
            error={errorAt(`pricing.long_prompts[${index}].above_tokens`)}
          />
          <PriceFields
            prices={tier}
            names={tokenPriceNames}
            onPrice={(name, text) =>
              setTiers(tiers.map((one, at) => (at === index ? withPrice(one, name, text) : one)))
            }
            errorAt={(name) => errorAt(`pricing.long_prompts[${index}].${name}`)}
            before={before?.long_prompts?.[index]}
          />
          <button
            type="button"
            class="link"
            onClick={() => setTiers(tiers.filter((_, at) => at !== index))}
          >
            Remove these prices
          </button>
        </fieldset>
      ))}
      <button
        type="button"
        class="link"
        onClick={() => setTiers([...tiers, { above_tokens: 0, prompt: '', completion: '' }])}
      >
        Add prices for long prompts
      </button>
    </>
  );
}

/** An empty price isn't set. */
function withPrice<T extends object>(prices: T, name: PriceName, text: string): T {
  const { [name]: _, ...rest } = prices as T & Prices;
  return (text === '' ? rest : { ...rest, [name]: text }) as T;
}

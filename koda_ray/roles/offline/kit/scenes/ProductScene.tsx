// What is offered. How the card moves is in src/theatre/state.json.
import { ProductCard, type ProductCardProps } from '../components/ProductCard';

const product: ProductCardProps = __PRODUCT__;

export function ProductScene() {
  return <ProductCard {...product} />;
}
